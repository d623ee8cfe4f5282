"""The operations: actor, time and outcome, written by each process, and read when the round is over.

An operation is two lines of JSON in a file of its process: one before it begins and one when it has ended. Each line is
one write to a file opened for appending, so a process that is killed loses at most what it had not begun to write. An
operation without a second line has an unknown outcome, as has one whose connection broke while it may have committed.

Times are those of the machine's monotonic clock, which all processes share and which no fault moves.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from pgqueue.errors import ConnectionLostError, PGQueueError


class Outcome(Enum):
    """How an operation ended, as far as who called it can know."""

    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Operation:
    """One call: ``facts`` are what it was called with, and what it answered. ``ended`` is infinite if it never did."""

    name: str
    verb: str
    actor: str
    queue: str
    invoked: float
    ended: float
    outcome: Outcome
    facts: dict[str, Any]

    def about(self, message: str | None) -> str:
        """In one line, with its facts about one message where it concerns many."""
        ended = "never ended" if self.ended == float("inf") else f"{self.outcome.value} at {self.ended:.3f}"
        facts = {key: _about(message, value) for key, value in self.facts.items() if value is not None}
        told = ", ".join(f"{key} {value}" for key, value in facts.items())
        return f"{self.invoked:.3f} {self.verb}, {ended}, by {self.actor} on {self.queue} ({self.name}): {told}"


@dataclass
class Open:
    """An operation that is under way. ``doubt``: an error would leave open whether it was done."""

    name: str
    doubt: bool
    facts: dict[str, Any] = field(default_factory=dict)
    outcome: Outcome | None = None
    is_left: bool = False

    def leave_open(self) -> None:
        """Its end is in other hands, and is not reported."""
        self.is_left = True


def _sqlstate(error: BaseException) -> str | None:
    """That of the driver's error, which SQLAlchemy wraps."""
    return getattr(getattr(error, "orig", error), "sqlstate", None)


def _about(message: str | None, value: Any) -> Any:
    if not isinstance(value, list) or len(value) < 2:
        return value
    concerned = [each for each in value if message is not None and (each == message or message in each)]
    return f"{concerned or value[:1]} of {len(value)}"


class Book:
    """The operations of one process. Safe to use from several threads."""

    def __init__(self, directory: Path, process: str) -> None:
        self._process = process
        self._numbers = itertools.count()
        self._file = os.open(directory / f"{process}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    @contextmanager
    def operation(self, verb: str, actor: str, queue: str, *, doubt: bool, **facts: Any) -> Iterator[Open]:
        """Writes down that it begins, and how it ended; errors pass."""
        name = f"{self._process}-{next(self._numbers)}"
        self._write({"op": name, "verb": verb, "actor": actor, "queue": queue, "at": time.monotonic(), **facts})
        under_way = Open(name, doubt)
        try:
            yield under_way
        except GeneratorExit:
            raise  # it has not ended
        except BaseException as error:
            outcome = under_way.outcome or outcome_of(error, doubt=under_way.doubt)
            text = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
            self._end(under_way, outcome, error=text, sqlstate=_sqlstate(error))
            raise
        if not under_way.is_left:
            self._end(under_way, under_way.outcome or Outcome.OK)

    def close(self) -> None:
        os.close(self._file)
        self._file = -1  # its number may soon be that of something else

    def _end(self, under_way: Open, outcome: Outcome, **facts: Any) -> None:
        end = {"op": under_way.name, "outcome": outcome.value, "at": time.monotonic()}
        self._write(end | under_way.facts | facts)

    def _write(self, line: dict[str, Any]) -> None:
        os.write(self._file, json.dumps(line, default=str).encode() + b"\n")


def outcome_of(error: BaseException, *, doubt: bool) -> Outcome:
    """The outcome by an error: the library's own errors promise that nothing was done, but for a lost connection."""
    refused = isinstance(error, PGQueueError) and not isinstance(error, ConnectionLostError)
    if doubt and (not refused or isinstance(error, asyncio.CancelledError)):
        return Outcome.UNKNOWN
    return Outcome.FAIL


def read(directory: Path) -> list[Operation]:
    """All operations of a round, in the order in which they began."""
    operations = [each for path in sorted(directory.glob("*.jsonl")) for each in _read(path)]
    return sorted(operations, key=lambda each: each.invoked)


def _read(path: Path) -> Iterator[Operation]:
    begun: dict[str, dict[str, Any]] = {}
    ended: dict[str, dict[str, Any]] = {}
    for line in path.read_text().splitlines():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue  # the power was cut in the middle of a line
        (begun if "verb" in entry else ended)[entry["op"]] = entry
    for name, entry in begun.items():
        end = ended.get(name, {"at": float("inf"), "outcome": "unknown"})
        facts = {
            key: value
            for key, value in (entry | end).items()
            if key not in ("op", "verb", "actor", "queue", "at", "outcome")
        }
        yield Operation(
            name=name,
            verb=entry["verb"],
            actor=entry["actor"],
            queue=entry["queue"],
            invoked=entry["at"],
            ended=end["at"],
            outcome=Outcome(end["outcome"]),
            facts=facts,
        )
