"""The rule for growth, and a short soak of a real worker; ``make soak`` is the long one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.soak.__main__ import soak
from benchmarks.soak.growth import Sample, growing, interval
from pgqueue.testing import Database

THREADS = 2
#: Beside those of a worker's threads: who receives, who renews, who listens; the client; and the sender.
OTHER_CONNECTIONS = 5

CALM = [
    Sample(minutes, memory=80, threads=20, connections=12, backend_memory=40, dead_rows=5_000, p50=4, p99=9)
    for minutes in range(20)
]


def test_constant_samples_do_not_grow() -> None:
    assert growing(CALM) == []


def test_a_short_soak_has_enough_looks_for_a_verdict() -> None:
    assert (interval(60, 3600), interval(60, 160)) == (60, 10)


def test_growth_only_at_the_start_does_not_count() -> None:
    assert growing([replace(CALM[0], memory=40, connections=1), *CALM[1:]]) == []


@pytest.mark.core
@pytest.mark.parametrize("name", ["memory", "threads", "connections", "backend_memory", "dead_rows", "p50"])
def test_a_quantity_that_rises_all_the_time_grows(name: str) -> None:
    rising = [replace(sample, **{name: getattr(sample, name) * (1 + sample.minutes)}) for sample in CALM]
    assert [found.split()[0] for found in growing(rising)] == [name]


def test_a_worker_holds_on_to_nothing(database: Database) -> None:
    samples = soak(database.dsn, rate=100, seconds=16, every=1, concurrency=THREADS)
    last = [replace(each, dead_rows=0, backend_memory=0.0, p50=0.0, connections=0) for each in samples]  # need minutes
    assert growing(last) == []
    assert max(sample.connections for sample in samples) <= THREADS + OTHER_CONNECTIONS
    assert len(samples) >= 10
