"""The output and the files of a run."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from benchmarks.chaos import display
from benchmarks.chaos.__main__ import faults_named
from benchmarks.chaos.plan import FAULTS, MISCHIEF
from benchmarks.chaos.rules import Violation
from tests.chaos.under_fire.stories import Story

PAGE = Path(__file__).parents[3] / "docs" / "reliability.md"


def test_a_table_takes_the_place_of_the_one_that_a_page_has(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n")
    display.write(page, "yesterday", ["| a |", "| b |"])
    page.write_text(f"{page.read_text()}\n## More\n")
    display.write(page, "today", ["| c |"])
    assert page.read_text() == f"# A page\n\ntoday\n\n{display.heading()}\n| c |\n\n## More\n"


@pytest.mark.parametrize("name", [*FAULTS, *MISCHIEF])
def test_the_page_has_a_row_for_every_fault_with_its_command(name: str) -> None:
    [row] = [line for line in PAGE.read_text().splitlines() if f'SEED=1 ONLY="{name}"' in line]
    assert row.startswith(f"| {FAULTS.get(name) or MISCHIEF[name]} |")


def test_a_fault_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    assert faults_named("kill, freeze") == ["kill", "freeze"]
    with pytest.raises(argparse.ArgumentTypeError, match="no such fault: krill; there are kill, "):
        faults_named("krill")


def test_one_of_each_kind_of_many_violations_is_shown() -> None:
    many = [Violation("truth", f"lie {number}") for number in range(20)] + [Violation("fence", "late")]
    shown = display.first(many)
    assert [violation.rule for violation in shown].count("fence") == 1
    assert len(shown) == display.SHOWN


def test_an_operation_on_many_messages_is_shown_with_the_one_concerned() -> None:
    story = Story()
    story.take("m", "another", outcome="ok", effect=True)
    [violation] = [each for each in story.violations() if each.message == "m"]
    assert "ids ['m'] of 2" in str(violation)
