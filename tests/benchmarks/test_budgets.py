"""The verbs of the hot path keep to their budgets."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from benchmarks.budgets import budget
from benchmarks.budgets.measuring import measure
from benchmarks.budgets.verbs import MESSAGE, QUEUE, VERBS, Call, Place
from pgqueue.testing.hosts import binaries
from tests.selection import ROOT


def test_every_verb_keeps_to_its_budget() -> None:
    """In a process of its own: tests that ran before in this one may have turned on telemetry."""
    postgres = subprocess.run([binaries() / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
    versions = budget.versions(postgres.split()[-1])
    if versions not in budget.FILE.read_text():
        pytest.skip(f"the budgets are of other versions than {versions}")
    command = [sys.executable, "-m", "benchmarks.budgets"]
    measured = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert measured.returncode == 0, measured.stdout + measured.stderr
    assert budget.read(measured.stdout).keys() == VERBS.keys()


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
