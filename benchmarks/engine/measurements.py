"""The measurements: each function makes one row of the table, all designs interleaved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import psycopg

from benchmarks.engine.design import Design
from benchmarks.engine.pgbench import BATCH

CLAIMS = 300


@dataclass(frozen=True)
class Scale:
    """How much of it: the whole, or a quick look."""

    repeats: int
    claim_repeats: int
    """More than one only for designs that do not mind how many messages are in flight: no claim is completed."""
    cell_seconds: int
    hold_seconds: int
    many: int


FULL = Scale(repeats=5, claim_repeats=1, cell_seconds=3, hold_seconds=60, many=1_000_000)
CLOSE = Scale(repeats=20, claim_repeats=20, cell_seconds=2, hold_seconds=60, many=1_000_000)
QUICK = Scale(repeats=2, claim_repeats=1, cell_seconds=2, hold_seconds=8, many=50_000)


@dataclass(frozen=True)
class Row:
    """A figure for each design, by name; what a design was not measured for is missing."""

    title: str
    unit: str
    figures: dict[str, float]


def throughput(designs: Sequence[Design], scale: Scale, clients: int) -> Row:
    """In a table that has had messages before, as queues have: who begins with an empty file pays for its growth."""
    for design in designs:
        design.empty()
        design.cycle(clients=clients, seconds=scale.cell_seconds)

    def rate(design: Design) -> float:
        design.vacuum()
        return design.cycle(clients=clients, seconds=scale.cell_seconds).messages_per_second

    title = f"send, receive, complete: 10 a batch, {clients} clients"
    return Row(title, "messages/s", _in_turns(designs, scale.repeats, rate))


def kept_up(designs: Sequence[Design], scale: Scale, clients: int) -> Row:
    """For long enough that autovacuum has come by, on its own: until then what was consumed lies where it lay."""
    seconds = scale.hold_seconds * 3 // 2

    def rate(design: Design) -> float:
        design.vacuum()
        return design.cycle(clients=clients, seconds=seconds).messages_per_second

    return Row(f"… kept up for {seconds} s, {clients} clients", "messages/s", _in_turns(designs, 2, rate))


def under_a_held_snapshot(designs: Sequence[Design], scale: Scale) -> Row:
    return Row(
        f"rate at the end of {scale.hold_seconds} s with a snapshot held ÷ without",
        "ratio",
        {design.name: _rate_while(design, scale, _snapshot) for design in designs},
    )


def under_an_open_sender(design: Design, scale: Scale) -> Row:
    return Row(
        f"rate at the end of {scale.hold_seconds} s with a sender's transaction open ÷ without",
        "ratio",
        {design.name: _rate_while(design, scale, _open_sender)},
    )


def claim_latencies(designs: Sequence[Design], scale: Scale) -> Iterator[Row]:
    situations: list[tuple[str, Callable[[Design], None]]] = [
        ("a claim of 10, little waiting", _nothing),
        ("… with 20,000 in flight", lambda design: _in_flight(design, 20_000)),
        (f"… with {scale.many:,} waiting", lambda design: design.fill(scale.many)),
        (f"… with {scale.many:,} scheduled", lambda design: design.schedule(scale.many)),
    ]
    for title, arrange in situations:
        for design in designs:
            design.empty()
            arrange(design)
            design.fill(BATCH * CLAIMS * (scale.claim_repeats + 1))
            design.claims(CLAIMS // 3)
        yield Row(title, "ms", _in_turns(designs, scale.claim_repeats, lambda design: design.claims(CLAIMS).latency_ms))


def _in_turns(designs: Sequence[Design], turns: int, measure: Callable[[Design], float]) -> dict[str, float]:
    """The median for each design, of as many turns; each is first in every other."""
    measured: dict[str, list[float]] = {design.name: [] for design in designs}
    for turn in range(turns):
        for design in designs if turn % 2 == 0 else reversed(designs):
            measured[design.name].append(measure(design))
    return {name: median(figures) for name, figures in measured.items()}


def _nothing(_: object) -> None:
    """The situation to compare with."""


def _in_flight(design: Design, messages: int) -> None:
    design.fill(messages)
    design.claims(messages // 10)


def _rate_while(design: Design, scale: Scale, held: Callable[[psycopg.Connection[Any]], None]) -> float:
    rates = []
    for hold in (_nothing, held):
        design.empty()
        with _holding(design, hold):
            rates.append(_last_rate(design, scale))
    free, under_hold = rates
    return under_hold / free


def _last_rate(design: Design, scale: Scale) -> float:
    progress = design.cycle(clients=8, seconds=scale.hold_seconds).progress
    last = progress[-max(1, scale.hold_seconds // 12) :]
    return sum(last) / len(last)


@contextmanager
def _holding(design: Design, hold: Callable[[psycopg.Connection[Any]], None]) -> Iterator[None]:
    """An open transaction beside the load."""
    with design.connect() as connection:
        hold(connection)
        yield
        connection.rollback()


def _snapshot(connection: psycopg.Connection[Any]) -> None:
    connection.execute("set transaction isolation level repeatable read")
    connection.execute("select 1")


def _open_sender(connection: psycopg.Connection[Any]) -> None:
    connection.execute("select pgqueue.send('bench', '{}')")
