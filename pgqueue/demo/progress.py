"""The progress of a run: read from the tables, and displayed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol, Self

from psycopg.rows import dict_row
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from pgqueue.demo.business import Connection
from pgqueue.demo.plan import QUEUE

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

    total: int
    kills_planned: int
    sent: int = 0
    posted: int = 0
    redelivered: int = 0
    retried: int = 0
    kills: int = 0
    ready: int = 0
    locked: int = 0
    scheduled: int = 0
    dead_letters: int = 0

    @property
    def left(self) -> int:
        """The messages that are left in the queue."""
        return self.ready + self.locked + self.scheduled

    @property
    def kills_due(self) -> int:
        """The kills due by now: spread over the run, the last early enough for its messages to be redelivered."""
        return min(self.kills_planned, int(self.posted / self.total * (self.kills_planned + 1) * 1.2))

    def __str__(self) -> str:
        return (
            f"waiting {self.ready}  locked {self.locked}  delayed {self.scheduled}  dead-lettered {self.dead_letters}  "
            f"redelivered {self.redelivered}  retried {self.retried}  killed {self.kills} of {self.kills_planned}"
        )


def read(connection: Connection, before: Counts) -> Counts:
    row = connection.cursor(row_factory=dict_row).execute(COUNTS, [QUEUE]).fetchone()
    return Counts(before.total, before.kills_planned, **(row or {}))


class Display(Protocol):
    """The display of a run's progress."""

    def show(self, counts: Counts) -> None: ...


class LiveDisplay:
    """For a terminal: two bars, and the counts below them."""

    def __init__(self, console: Console) -> None:
        columns = (TextColumn("{task.description:>6}"), BarColumn(bar_width=None), MofNCompleteColumn())
        self._bars = Progress(*columns, TextColumn("{task.fields[rate]}"), console=console, expand=True)
        self._sent, self._posted = (self._bars.add_task(name, rate="") for name in ("sent", "posted"))
        self._live = Live(self._bars, console=console, refresh_per_second=10)
        self._rate = Rate()

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, counts: Counts) -> None:
        rate = f"{self._rate.of(counts):,.0f} messages/s"
        self._bars.update(self._sent, total=counts.total, completed=counts.sent)
        self._bars.update(self._posted, total=counts.total, completed=counts.posted, rate=rate)
        self._live.update(Group(self._bars, Text(str(counts), style="dim")))


class PlainDisplay:
    """For a file or a pipe: a line at intervals."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rate = Rate()
        self._due = self._started = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def show(self, counts: Counts) -> None:
        rate, now = self._rate.of(counts), time.monotonic()
        if now >= self._due:
            self._due = now + LINE_EVERY
            line = f"{now - self._started:4.0f} s  sent {counts.sent}  posted {counts.posted} ({rate:.0f}/s)  {counts}"
            self._console.print(line, soft_wrap=True)


class Rate:
    """The number of flights posted a second, over the last few seconds."""

    def __init__(self) -> None:
        self._marks: list[tuple[float, int]] = []

    def of(self, counts: Counts) -> float:
        now = time.monotonic()
        self._marks = [mark for mark in self._marks if mark[0] > now - WINDOW] + [(now, counts.posted)]
        (then, posted), *_ = self._marks
        return (counts.posted - posted) / (now - then) if now > then else 0.0
