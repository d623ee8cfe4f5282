"""From the history of queues to figures and a page: times, throughput, backlog, retries, dead letters."""

from __future__ import annotations

from pgqueue.spark.report.making import Report, report
from pgqueue.spark.report.requirements import NotReportable

__all__ = ["NotReportable", "Report", "report"]
