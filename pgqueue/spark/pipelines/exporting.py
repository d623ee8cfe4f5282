"""Exports the history of queues to a lake, each settled message once, and the current dead letters."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

import pgqueue.spark
from pgqueue.spark.connections import Instance, first_row
from pgqueue.spark.pipelines.ingesting import check_queue
from pgqueue.spark.pipelines.lake import (
    CHECKPOINTS,
    Lake,
    LakeError,
    counting,
    day_of,
    escaped,
    located,
)
from pgqueue.spark.pipelines.objects import opened
from pgqueue.spark.pipelines.progress import Progress, Tell
from pgqueue.spark.pipelines.sending import sample

HISTORY, DEAD_LETTERS = "history", "dead_letters"

NOT_EXPORTED = """
    select count(*)
      from pgqueue.history
     where transaction_id > %(last)s::text::xid8 and transaction_id < pg_snapshot_xmin(pg_current_snapshot())
       and (queue = %(queue)s or %(queue)s::text is null)
"""


@dataclass(frozen=True)
class Exported:
    """The result of an export; in a dry run, what would be exported now."""

    output: str
    queue: str | None
    """The queue; None for all."""
    history: int
    """How many settled messages were added to ``<output>/history``."""
    dead_letters: int
    """How many dead letters there are, all of them in ``<output>/dead_letters``."""
    dry_run: bool
    sample: tuple[dict[str, Any], ...] = ()
    """In a dry run: a few dead letters."""


def export(
    output: str | Path,
    *,
    dsn: str,
    schema: str = "pgqueue",
    queue: str | None = None,
    dry_run: bool = False,
    progress: Tell | None = None,
    spark: SparkSession | None = None,
) -> Exported:
    """Add to ``<output>/history`` what was settled since the last time, and replace ``<output>/dead_letters``.

    Each settled message is written once, whatever crashes when. None is missed if this runs more often than the queues
    retain their history. Messages that are settled while an older transaction is open wait for the next time.

    Args:
        output: a directory; the checkpoint is in it, in ``_checkpoints``.
        dsn: the database.
        schema: the schema of pgqueue there.
        queue: export only this queue. An output holds one queue, or all.
        dry_run: count and show, write nothing.
        progress: called after each batch.
        spark: the session to use; by default :func:`pgqueue.spark.session`.

    Raises:
        pgqueue.errors.QueueNotFoundError: no queue has that name.
        pgqueue.spark.pipelines.LakeError: the output holds the history of other queues, or has lost its checkpoint, so
            that it is not known what is new.
    """
    instance = Instance(dsn, schema)
    if queue is not None:
        check_queue(instance, queue)
    session = spark or pgqueue.spark.session()
    lake = opened(session, located(output))
    scope = HISTORY if queue is None else f"{HISTORY} of {escaped(queue)}"
    _check(lake, scope)
    options = {**asdict(instance), "queue": queue or "", "columns": "*"}
    dead = session.read.format("pgqueue").options(table=DEAD_LETTERS, **options).load()
    if dry_run:
        return _foreseen(lake, instance, queue, dead)
    stream = session.readStream.format("pgqueue").options(table=HISTORY, **options).load()
    settled = _add(lake, scope, stream, progress)
    dead_letters = counting(dead, lambda seen: lake.replace(seen, DEAD_LETTERS))
    return Exported(lake.root, queue, settled, dead_letters, dry_run=False)


def _check(lake: Lake, scope: str) -> None:
    others = [place for place in lake.find(CHECKPOINTS, f"{HISTORY}*") if place.rsplit("/", 1)[1] != scope]
    if others:
        raise LakeError(f"{lake.root} holds the {others[0].rsplit('/', 1)[1]}: export to another directory")
    if lake.find(HISTORY) and not lake.find(CHECKPOINTS, scope):
        raise LakeError(
            f"the checkpoint of {lake.path(HISTORY)} is missing, so new rows are unknown: export to another directory"
        )


def _add(lake: Lake, scope: str, stream: DataFrame, progress: Tell | None) -> int:
    """Add the new rows of the history, and return their number; a batch that Spark repeats overwrites itself."""
    batches: list[int] = []
    with lake.checkpoint(scope) as checkpoint:

        def add(batch: DataFrame, batch_id: int) -> None:
            rows = batch.withColumns({"date": day_of("settled_at"), "batch": F.lit(batch_id).cast("long")})
            checkpoint.save()  # which rows are in this batch must be known before they are in the lake
            batches.append(counting(rows, lambda seen: lake.overwrite(seen, lake.path(HISTORY), "date", "batch")))
            if progress is not None:
                progress(Progress(sum(batches), len(batches)))

        writer = stream.writeStream.foreachBatch(add).trigger(availableNow=True)
        query = writer.option("checkpointLocation", checkpoint.location).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()
    return sum(batches)


def _foreseen(lake: Lake, instance: Instance, queue: str | None, dead: DataFrame) -> Exported:
    last = 0
    if lake.find(HISTORY, "date=*"):
        last = lake.largest("transaction_id", lake.path(HISTORY)) or 0
    with instance.connect() as connection:
        (settled,) = first_row(connection, NOT_EXPORTED, {"last": str(last), "queue": queue})
    return Exported(lake.root, queue, settled, dead.count(), dry_run=True, sample=sample(dead))
