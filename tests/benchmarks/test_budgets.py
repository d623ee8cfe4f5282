"""The verbs of the hot path keep to their budgets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.budgets import budget
from benchmarks.budgets.measuring import Measured, measure
from benchmarks.budgets.verbs import MESSAGE, QUEUE, VERBS, Call, Place


@pytest.fixture(scope="module")
def measured() -> Measured:
    return measure()


@pytest.mark.timeout(1200)
def test_every_verb_keeps_to_its_budget(measured: Measured) -> None:
    text = budget.FILE.read_text()
    if measured.versions not in text:
        pytest.skip(f"the budgets are of other versions than {measured.versions}")
    budgets = budget.read(text)
    assert budgets.keys() == VERBS.keys()
    assert [str(difference) for difference in budget.differences(measured.table, budgets)] == []


def test_dearer_verb_is_reported() -> None:
    dearer = measure(verbs={"send": _send_and_count}).table
    reported = {each.name for each in budget.differences(dearer, budget.read(budget.FILE.read_text()))}
    assert {"statements", "buffers", "contexts", "backend kB"} <= reported


def _send_and_count(place: Place, calls: int) -> Iterator[Call]:
    def send() -> None:
        place.client.queue(QUEUE).send(MESSAGE)
        place.transact(lambda connection: connection.execute("select count(*) from pgqueue.queues"))

    yield from [send] * calls


@pytest.mark.parametrize("name", budget.TOLERANCES)
def test_figure_must_keep_its_budget_in_both_directions(name: str) -> None:
    budgets = budget.read(budget.FILE.read_text())
    at_budget = budgets["receive of 10"]
    for factor in (0.8, 1.2):
        changed = {**at_budget, name: at_budget[name] * factor if at_budget[name] else factor}
        (difference,) = budget.differences({"receive of 10": changed}, budgets)
        assert str(difference).startswith(f"receive of 10: {name} ")


def test_verb_without_a_budget_is_reported() -> None:
    budgets = budget.read(budget.FILE.read_text())
    assert list(budget.differences({"a new verb": dict(budgets["send"])}, budgets))


def test_written_table_is_read_again() -> None:
    budgets = budget.read(budget.FILE.read_text())
    assert budget.read(budget.written(budgets, "PostgreSQL 18, Python 3.11")) == budgets
