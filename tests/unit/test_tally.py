"""The histogram of a worker's handlers, which many threads fill."""

from __future__ import annotations

import threading

import pytest

from pgqueue.worker import tally
from pgqueue.worker.tally import Durations


def test_durations_of_all_threads_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "COUNTED_AT_ONCE", 7)
    durations = Durations()

    def observe() -> None:
        for _ in range(1_000):
            durations.observe(0.002)
            durations.observe(2.0)

    threads = [threading.Thread(target=observe) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(durations._observed) < 7
    counts, total = durations.read()
    assert (dict(counts)["0.001"], dict(counts)["0.0025"], dict(counts)["2.5"], dict(counts)["+Inf"]) == (
        0,
        4_000,
        8_000,
        8_000,
    )
    assert total == pytest.approx(4_000 * 2.002)


def test_a_bound_includes_durations_of_its_length() -> None:
    durations = Durations()
    for seconds in (0.001, 0.0011, 300.0, 300.1):
        durations.observe(seconds)
    counts = dict(durations.read()[0])
    assert [counts[bound] for bound in ("0.001", "0.0025", "60.0", "300.0", "+Inf")] == [1, 2, 2, 3, 4]
