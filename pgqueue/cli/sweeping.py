"""``pgqueue sweep``: tidies up all queues, for cron."""

from __future__ import annotations

from typing import Annotated

from pgqueue import SweepReport
from pgqueue.cli import output
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.group import top
from pgqueue.cli.options import flag
from pgqueue.cli.output import AsJson, Result, plain
from pgqueue.cli.progress import working


@on_database(top, "sweep", short_help="Tidy up all queues.")
def sweep(
    database: Database,
    dry_run: Annotated[bool, flag("dry-run", "Count what a sweep would do, and change nothing.")] = False,
    thorough: Annotated[
        bool, flag("thorough", "Look everything over, as a sweep otherwise does once an hour.")
    ] = False,
    as_json: AsJson = False,
) -> Result:
    """Tidy up all queues: drop or dead-letter what is over, put back what can be received again, forget what may be.

    Nothing depends on it, for receivers do the same. Run it from cron as often as you like: two at once do no
    harm, and neither does killing it.
    """
    with working("sweeping", as_json=as_json):
        report = database.client.sweep(dry_run=dry_run, thorough=thorough)
    done = ("there is to be done: " if dry_run else "") + _counts(report)
    return Result(plain(report) | {"dry_run": dry_run}, "there was nothing to do" if report == SweepReport() else done)


def _counts(report: SweepReport) -> str:
    """The counts above zero."""
    counts = {
        f"{output.counted(report.expired, 'message')} expired": report.expired,
        f"{output.counted(report.dead_lettered, 'message')} dead-lettered": report.dead_lettered,
        f"{report.returned:,} put back after {'its lock' if report.returned == 1 else 'their locks'} expired": (
            report.returned
        ),
        f"{report.activated:,} whose time had come": report.activated,
        f"{output.counted(report.forwarded, 'waiting message')} forwarded": report.forwarded,
        f"{output.counted(report.forgotten, 'record')} forgotten": report.forgotten,
        f"{output.counted(report.reclaimed_days, 'day')} of history reclaimed": report.reclaimed_days,
        f"{output.counted(report.deleted_queues, 'idle queue')} deleted": report.deleted_queues,
    }
    return ", ".join(text for text, count in counts.items() if count)
