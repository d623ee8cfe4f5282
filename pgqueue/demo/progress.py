"""The progress of a run: read from the tables, and displayed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from psycopg.rows import class_row
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from pgqueue.demo.plan import QUEUE, Connection

COUNTS = """
select (select count(*) from pgqueue_demo.flight) as sent,
       (select count(*) from pgqueue_demo.posting) as posted,
       (select count(*) from pgqueue_demo.posting where delivery_count > 1) as redelivered,
       (select count(*) from pgqueue_demo.retry) as retried,
       (select count(*) from pgqueue_demo.kill) as kills,
       ready, locked, scheduled, dead_letters
  from pgqueue.queue_counts(%s)
"""

#: In seconds: over how long the rate is measured, and how often a file or a pipe gets a line.
WINDOW, LINE_EVERY = 2.0, 2.0


@dataclass(frozen=True)
class Counts:
    """The counts in the tables at one time."""

    sent: int
    posted: int
    redelivered: int
    retried: int
    kills: int
    ready: int
    locked: int
    scheduled: int
    dead_letters: int

    @classmethod
    def read(cls, connection: Connection) -> Counts:
        (counts,) = connection.cursor(row_factory=class_row(cls)).execute(COUNTS, [QUEUE])
        return counts

    @property
    def left(self) -> int:
        """The messages that are left in the queue."""
        return self.ready + self.locked + self.scheduled

    def __str__(self) -> str:
        return (
            f"waiting {self.ready}  locked {self.locked}  delayed {self.scheduled}  dead-lettered {self.dead_letters}  "
            f"redelivered {self.redelivered}  retried {self.retried}  killed {self.kills}"
        )


@contextmanager
def displayed(console: Console, total: int, kills: int) -> Iterator[Callable[[Counts], None]]:
    """Yields what shows counts: two bars and a line below them on a terminal, elsewhere a line at intervals."""
    columns = (TextColumn("{task.description:>6}"), BarColumn(bar_width=None), MofNCompleteColumn())
    rate = TextColumn("{task.fields[rate]}")
    bars = Progress(*columns, rate, console=console, expand=True, speed_estimate_period=WINDOW)
    sent, posted = (bars.add_task(name, total=total, rate="") for name in ("sent", "posted"))
    below = Text(style="dim")
    started = due = time.monotonic()

    def show(counts: Counts) -> None:
        nonlocal due
        speed = bars.tasks[posted].speed or 0
        bars.update(sent, completed=counts.sent)
        bars.update(posted, completed=counts.posted, rate=f"{speed:,.0f} messages/s")
        below.plain = f"{counts} of {kills}"
        now = time.monotonic()
        if not console.is_terminal and now >= due:
            due = now + LINE_EVERY
            done = f"{now - started:4.0f} s  sent {counts.sent}  posted {counts.posted} ({speed:.0f}/s)"
            console.print(f"{done}  {below.plain}", soft_wrap=True)

    if console.is_terminal:
        with Live(Group(bars, below), console=console, refresh_per_second=10):
            yield show
    else:
        yield show
