"""The processes of a test run compile different files at the same time, and run the same tests."""

from __future__ import annotations

import pytest

from tests.selection import ROOT
from tests.turns import from_its_own_on

FILES = ["a", "b", "c", "d", "e", "f", "g"]


@pytest.mark.parametrize("processes", [1, 2, 3, 8])
def test_each_process_collects_all_files(processes: int) -> None:
    for process in range(processes):
        assert sorted(from_its_own_on(FILES, process, processes)) == FILES


def test_the_processes_begin_at_different_files() -> None:
    assert [from_its_own_on(FILES, process, 3)[0] for process in range(3)] == ["a", "c", "e"]


def test_one_process_keeps_the_order() -> None:
    assert from_its_own_on(FILES, 0, 1) == FILES


def test_a_run_of_several_processes_runs_each_test_once(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(**{f"test_{name}": f"def test_{name}(): ..." for name in FILES})
    run = pytester.runpytest_subprocess("-n", "3", "-p", "tests.turns", "-p", "no:cacheprovider")
    run.assert_outcomes(passed=len(FILES))
