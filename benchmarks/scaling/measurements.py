"""One column of figures for each axis; all places of an axis take turns, each in a database of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from benchmarks.engine.design import BODY, Design
from benchmarks.engine.pgbench import Pgbench
from pgqueue.testing.database import create, drop
from pgqueue.testing.server import ThrowawayServer

CYCLE = """
select count(*) from pgqueue.send_batch(QUEUE, array_fill(:body::jsonb, array[10]));
select coalesce(array_agg(sequence_number), '{}') as numbers, coalesce(array_agg(lock_token), '{}') as tokens
  from pgqueue.receive(QUEUE, 10) \\gset
select count(*) from pgqueue.complete_batch(QUEUE, :numbers::bigint[], :tokens::uuid[]);"""
ONE_QUEUE = CYCLE.replace("QUEUE", "'bench'")
ANY_QUEUE = "\\set nth random(1, COUNT)" + CYCLE.replace("QUEUE", "'bench' || :nth")
QUEUES = "select pgqueue.create_queue('bench' || nth, lock_duration => '1 hour') from generate_series(1, %s) as nth"


@dataclass(frozen=True)
class Scale:
    """How much of it: the whole, or a quick look."""

    turns: int
    seconds: int
    waiting: Sequence[int]
    consumers: Sequence[int]
    queues: Sequence[int]


FULL = Scale(5, 3, (0, 1_000, 10_000, 100_000, 1_000_000), (1, 2, 4, 8, 16, 32, 64), (1, 10, 100, 1_000, 10_000))
QUICK = Scale(2, 1, (0, 1_000), (1, 2), (1, 10))


@dataclass(frozen=True)
class Axis:
    """Messages a second, of each turn, by what the axis counts."""

    title: str
    counts: str
    rates: Mapping[int, Sequence[float]]


def waiting(server: ThrowawayServer, scale: Scale) -> Axis:
    """One client sends ten, receives ten and completes ten, behind so many that wait."""
    with _databases(server, len(scale.waiting)) as databases:
        designs = [_design(server, dsn) for dsn in databases]
        for design, messages in zip(designs, scale.waiting, strict=True):
            design.set_up()
            design.fill(messages)
        rates = _in_turns(scale, dict(zip(scale.waiting, designs, strict=True)), ONE_QUEUE)
    return Axis("One client, by how many messages wait", "messages that wait", rates)


def consumers(server: ThrowawayServer, scale: Scale) -> Axis:
    """So many clients at once, on one queue."""
    with _databases(server, 1) as (dsn,):
        design = _design(server, dsn)
        design.set_up()
        rates: dict[int, list[float]] = {clients: [] for clients in scale.consumers}
        for _ in range(scale.turns):
            for clients, found in rates.items():
                design.vacuum()
                found.append(_rate(design, ONE_QUEUE, scale.seconds, clients))
    return Axis("One queue, by how many clients send and consume", "clients", rates)


def queues(server: ThrowawayServer, scale: Scale) -> Axis:
    """One client, each time in a queue by chance."""
    with _databases(server, len(scale.queues)) as databases:
        designs = [_design(server, dsn) for dsn in databases]
        for design, count in zip(designs, scale.queues, strict=True):
            design.migrate(design.dsn)
            with psycopg.connect(design.dsn, autocommit=True) as connection:
                connection.execute(QUEUES, [count])
            design.vacuum()
        rates = _in_turns(scale, dict(zip(scale.queues, designs, strict=True)), ANY_QUEUE)
    return Axis("One client, by how many queues there are", "queues", rates)


def _in_turns(scale: Scale, designs: Mapping[int, Design], script: str) -> dict[int, list[float]]:
    """The first turn is not counted: files grow, and sessions see everything for the first time."""
    rates: dict[int, list[float]] = {count: [] for count in designs}
    for turn in range(scale.turns + 1):
        for count, design in designs.items():
            rate = _rate(design, script.replace("COUNT", str(count)), scale.seconds, 1)
            if turn:
                rates[count].append(rate)
    return rates


def _rate(design: Design, script: str, seconds: int, clients: int) -> float:
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(script)
        file.flush()
        run = design.pgbench.run(design.dsn, Path(file.name), clients=clients, seconds=seconds)
    return run.messages_per_second


def _design(server: ThrowawayServer, dsn: str) -> Design:
    return Design("pgqueue", "pgqueue", dsn, Pgbench(server.binaries, BODY), "pgqueue")


@contextmanager
def _databases(server: ThrowawayServer, count: int) -> Iterator[list[str]]:
    made = [create(server.dsn()) for _ in range(count)]
    try:
        yield [each.dsn for each in made]
    finally:
        for each in made:
            drop(server.dsn(), each.name)
