"""Generated parts of pages are up to date with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.generate import BLOCK, PAGES, amqp, faces, filled, lists, sql
from docs.generate.commands import PLACES_FILE, overview, places
from docs.generate.text import ROOT
from pgqueue.cli.running import HELP

pytestmark = pytest.mark.core

LIBRARY = "".join(path.read_text() for path in (ROOT / "pgqueue").rglob("*.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_generated_page_is_up_to_date(page: Path) -> None:
    text = page.read_text()
    assert BLOCK.search(text)
    assert filled(text) == text, f"{page.relative_to(ROOT)} differs from the code: run `make generate`"


@pytest.mark.parametrize("path", lists.files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_lists_of_fields_in_a_file_are_up_to_date(path: Path) -> None:
    text = path.read_text()
    assert len(re.findall(r"(?:--|#) generated", text)) == len(lists.BLOCK.findall(text)), "a list does not end"
    assert lists.filled(path) == text, f"{path.relative_to(ROOT)} differs from pgqueue/model: run `make generate`"


def test_the_signatures_of_verbs_are_up_to_date() -> None:
    assert sql.SIGNATURES.read_text() == sql.signatures(), "pgqueue/statements differs from sql: run `make generate`"


def test_the_performatives_of_amqp_are_up_to_date() -> None:
    assert amqp.PERFORMATIVES.read_text() == amqp.performatives(), (
        "docs/generate/amqp.py has changed: run `make generate`"
    )


def test_the_help_of_all_commands_is_up_to_date() -> None:
    assert HELP.read_text() == overview(), "pgqueue/cli/help.txt differs from the code: run `make generate`"


def test_the_list_of_all_commands_is_up_to_date() -> None:
    assert PLACES_FILE.read_text() == places(), "pgqueue/cli/places.py differs from the code: run `make generate`"


@pytest.mark.parametrize("name", faces.FILES)
def test_the_synchronous_face_is_up_to_date(name: str) -> None:
    path, text = faces.written(name)
    assert path.read_text() == text, f"{path.relative_to(ROOT)} differs from pgqueue/aio: run `make generate`"


def test_every_verb_is_described_once() -> None:
    page = (ROOT / "sql" / "README.md").read_text()
    described = re.findall(r"^\| `(\w+)\(", page.partition("## Views")[0], re.MULTILINE)
    assert sorted(described) == sorted(name for name in sql.functions() if not name.startswith("_"))


def test_a_call_is_what_is_followed_by_its_arguments() -> None:
    assert "_complete_any" in sql.called("complete")
    assert "_lock_proven" in sql.reached("complete")
    assert "dead_letter" not in sql.called("_move_to_dead_letters"), "that is the table"
    assert "renew_claim" in sql.called("begin_claim")


def test_a_helper_that_nothing_calls_is_not_kept() -> None:
    uncalled = re.findall(r"^\| `(_\w+)` \| `\w+` \| \|$", sql.callers(), re.MULTILINE)
    assert uncalled == re.findall(r"execute function pgqueue\.(\w+)", (ROOT / "sql" / "triggers.sql").read_text())


def test_helpers_that_the_library_calls_are_listed_and_no_others() -> None:
    listed = re.findall(r"^\| `(\w+)\(", sql.library(), re.MULTILINE)
    called = {name for name in sql.functions() if f"pgqueue.{name}(" in LIBRARY and name.startswith("_")}
    assert set(listed) == called
    assert {"_due_in", "_next_xid", "_subscribe"} <= called
