"""Pipelines: files to queues, queues to a lake of Parquet, history to reports, and back.

Each pipeline can be run again after any failure. With ``dry_run=True`` it only reports what it would do.
"""

from __future__ import annotations

from pgqueue.spark.pipelines.draining import Drained, drain
from pgqueue.spark.pipelines.exporting import Exported, export
from pgqueue.spark.pipelines.files import InputError
from pgqueue.spark.pipelines.ingesting import Ingested, ingest
from pgqueue.spark.pipelines.lake import LakeError
from pgqueue.spark.pipelines.progress import Progress
from pgqueue.spark.pipelines.replaying import Replayed, replay
from pgqueue.spark.pipelines.reporting import Reported, report

__all__ = [
    "Drained",
    "Exported",
    "Ingested",
    "InputError",
    "LakeError",
    "Progress",
    "Replayed",
    "Reported",
    "drain",
    "export",
    "ingest",
    "replay",
    "report",
]
