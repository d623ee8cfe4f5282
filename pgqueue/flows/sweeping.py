"""A sweep: batches, each in a short transaction of its own, until nothing is left."""

from __future__ import annotations

from pgqueue.flows import schedules
from pgqueue.flows.flow import Executor, Flow
from pgqueue.model.sweeping import SweepReport
from pgqueue.statements import sweeping

SWEPT_AT_ONCE = 1000


def sweep(source: Executor, *, dry_run: bool, thorough: bool = False) -> Flow[SweepReport]:
    report = SweepReport()
    if not dry_run:
        yield from schedules.plan(source)
    for queues in (yield from source.execute(sweeping.queues_to_sweep())):
        more = True
        while more:
            batch = sweeping.sweep(max_messages=SWEPT_AT_ONCE, dry_run=dry_run, thorough=thorough, queues=queues)
            swept = yield from source.execute(batch)
            if swept.is_refused:
                return report
            report += swept.report
            more = swept.more
    return report
