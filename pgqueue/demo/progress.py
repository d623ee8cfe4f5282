"""The progress of a run: read from the tables, and displayed."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.text import Text

from pgqueue import QueueClient
from pgqueue.demo.business import Connection
from pgqueue.demo.plan import QUEUE

COUNTS = """
select (select count(*) from pgqueue_demo.flight),
       (select count(*) from pgqueue_demo.posting),
       (select count(*) from pgqueue_demo.posting where delivery_count > 1),
       (select count(*) from pgqueue_demo.retry),
       (select count(*) from pgqueue_demo.kill)
"""


@dataclass(frozen=True)
class Reading:
    """The counts in the tables at one time."""

    total: int
    kills_planned: int
    sent: int = 0
    posted: int = 0
    redelivered: int = 0
    retries: int = 0
    kills: int = 0
    waiting: int = 0
    locked: int = 0
    resting: int = 0
    dead: int = 0

    @property
    def is_empty(self) -> bool:
        return self.waiting + self.locked + self.resting == 0

    def __str__(self) -> str:
        return (
            f"waiting {self.waiting}  locked {self.locked}  resting {self.resting}  dead-lettered {self.dead}  "
            f"redelivered {self.redelivered}  retried {self.retries}  killed {self.kills} of {self.kills_planned}"
        )


def read(client: QueueClient, connection: Connection, before: Reading) -> Reading:
    counts = connection.execute(COUNTS).fetchone()
    assert counts is not None
    sent, posted, redelivered, retries, kills = counts
    queue = client.get_queue_runtime_properties(QUEUE)
    return replace(
        before,
        sent=sent,
        posted=posted,
        redelivered=redelivered,
        retries=retries,
        kills=kills,
        waiting=queue.ready,
        locked=queue.locked,
        resting=queue.scheduled,
        dead=queue.dead_letters,
    )


class Display(Protocol):
    """The display of a run's progress."""

    def show(self, reading: Reading) -> None: ...


class LiveDisplay:
    """For a terminal: two bars, and the counts below them."""

    def __init__(self, console: Console) -> None:
        self._bars = Progress(
            TextColumn("{task.description:>6}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            console=console,
            expand=True,
        )
        self._sent: TaskID = self._bars.add_task("sent", rate="")
        self._posted: TaskID = self._bars.add_task("posted", rate="")
        self._live = Live(self._bars, console=console, refresh_per_second=10)
        self._pace = Pace()

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, reading: Reading) -> None:
        rate = f"{self._pace.of(reading):,.0f} messages/s"
        self._bars.update(self._sent, total=reading.total, completed=reading.sent)
        self._bars.update(self._posted, total=reading.total, completed=reading.posted, rate=rate)
        self._live.update(self._picture(reading))

    def _picture(self, reading: Reading) -> RenderableType:
        return Group(self._bars, Text(str(reading), style="dim"))


class PlainDisplay:
    """For a file or a pipe: a line at intervals."""

    EVERY = 2.0

    def __init__(self, console: Console) -> None:
        self._console = console
        self._pace = Pace()
        self._started = time.monotonic()
        self._due = self._started

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def show(self, reading: Reading) -> None:
        rate = self._pace.of(reading)
        if (now := time.monotonic()) < self._due:
            return
        self._due = now + self.EVERY
        line = f"{now - self._started:4.0f} s  sent {reading.sent}  posted {reading.posted} ({rate:.0f}/s)  {reading}"
        self._console.print(line, soft_wrap=True)


class Pace:
    """The number of flights posted a second, over the last few seconds."""

    WINDOW = 2.0

    def __init__(self) -> None:
        self._marks: list[tuple[float, int]] = []

    def of(self, reading: Reading) -> float:
        now = time.monotonic()
        self._marks = [mark for mark in self._marks if mark[0] > now - self.WINDOW] + [(now, reading.posted)]
        (then, posted), *_ = self._marks
        return (reading.posted - posted) / (now - then) if now > then else 0.0
