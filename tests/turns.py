"""Each process of a test run collects the files from another one on, and so compiles a part of them for all.

On a new machine nothing is compiled: processes that collect in the same order would compile each file at the same time.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if isinstance(collector, pytest.Directory) and report.passed:
        report.result = from_its_own_on(report.result, *_place(collector.config))
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Restore an order that is the same in each process, as pytest-xdist requires."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.path)


def from_its_own_on(nodes: Sequence[T], process: int, processes: int) -> list[T]:
    """The nodes in the order in which one of the processes collects them."""
    first = len(nodes) * process // processes
    return [*nodes[first:], *nodes[:first]]


def _place(config: pytest.Config) -> tuple[int, int]:
    """The number of this process, from 0 on, and how many there are."""
    worker = getattr(config, "workerinput", {"workerid": "gw0", "workercount": 1})
    return int(worker["workerid"].removeprefix("gw")), worker["workercount"]
