"""How far a command has come that takes longer than a moment: shown at a terminal only, and gone when it is done."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from pgqueue.cli import output

#: In seconds: what ends sooner shows nothing, and how often it is measured how far it has come.
SOON, EVERY = 0.5, 0.25


@dataclass(frozen=True)
class Step:
    """The step in progress, and how much of it is done; a total of 0 if unknown."""

    text: str
    done: int
    total: int


Measure = Callable[[], Step | None]


@contextmanager
def working(text: str, *, as_json: bool, measure: Measure = lambda: None) -> Iterator[None]:
    """Show that the block is at work and for how long, and how far it has come as far as that can be measured."""
    if as_json or not (sys.stdout.isatty() and sys.stderr.isatty()):
        yield
        return
    over = threading.Event()
    thread = threading.Thread(target=_show, args=(text, measure, over), name="pgqueue-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _show(text: str, measure: Measure, over: threading.Event) -> None:
    if over.wait(SOON):
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=output.console(stderr=True), transient=True) as progress:
        task = progress.add_task(text, total=None)
        while not over.wait(EVERY):
            if step := measure():
                progress.update(task, description=step.text, completed=step.done, total=step.total or None)
