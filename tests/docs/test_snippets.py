"""Every block of the pages is run, or read by the program that it is for, or is text for a reason that stands here.

SQL is run by ``test_sql_snippets.py``. A block of an unknown language or page fails.
"""

from __future__ import annotations

import ast
import configparser
import json
import re
import shlex
import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from unittest import mock

import pytest
import typer
import yaml

from pgqueue.cli.app import app
from tests.docs import test_pages, test_tutorial
from tests.docs.snippets import ROOT, Snippet, snippets

pytestmark = pytest.mark.core

ALL = list(snippets())

#: Pages whose blocks of these languages another test runs.
RUN = {
    **{(page, "python"): test_pages.__name__ for page in test_pages.PAGES_THAT_RUN},
    **{
        (f"docs/{page}", language): test_tutorial.__name__
        for page in ("schedules.md", "spark-pipelines.md", "migrations.md", "security.md")
        for language in ("console", "json")
    },
    **{("docs/tutorial.md", language): test_tutorial.__name__ for language in ("console", "python", "ini")},
    **{(page, "python"): "test_fragments.py" for page in ("docs/pgbouncer.md", "docs/security.md", "docs/sending.md")},
    ("docs/django.md", "python"): "tests/django/test_page.py",
    ("docs/how-to/testing.md", "python"): "test_testing.py, and that of Django by tests/django/test_page.py",
}

#: Python that is compiled only: why it is not run.
COMPILED = {
    "docs/gateway.md": "it needs a gateway; tests/gateway does the same",
    "docs/index.md": "the first of a worker's handlers, as in docs/workers.md",
    "docs/migrations.md": "it stands in a revision of Alembic; tests/schema does the same",
    "docs/spark.md": "it needs Spark and a stream; tests/spark does the same",
    "docs/spark-pipelines.md": "it needs Spark and files; tests/spark does the same",
    "docs/spark-report.md": "it needs Spark and a lake; tests/spark does the same",
}

#: Text that no program reads: what it is.
TEXT = {
    "docs/architecture.md": "a diagram",
    "docs/command-line.md": "output of commands, with figures of one machine",
    "docs/doctor.md": "output of the doctor",
    "docs/lifecycle.md": "a diagram",
    "docs/security.md": "an error",
    "docs/spark-pipelines.md": "the path of a file",
    "docs/sweeper.md": "output of a sweep, and a line of a crontab",
    "docs/timeouts.md": "settings of the server",
    "docs/workers.md": "output of psql",
}


def shell(snippet: Snippet) -> None:
    """The shell can read it, and commands of ours have these arguments and options."""
    subprocess.run(["bash", "-n", "-c", snippet.text], check=True, capture_output=True)
    for line in snippet.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        match words:
            case ["pgqueue", *arguments]:
                check_command(arguments)
            case ["make", target]:
                assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), line


def check_command(arguments: list[str]) -> None:
    """Parse a command of ours, and do not run it."""
    arguments = arguments[: _first(arguments, ">>", ">", "|")]
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands") and arguments and not arguments[0].startswith("-"):
        assert arguments[0] in command.commands, f"there is no command {arguments[0]}"
        command = command.commands[arguments.pop(0)]
    if not hasattr(command, "commands") or command.invoke_without_command:
        with suppress(typer.Exit), mock.patch("typer.prompt", return_value="secret"):  # --hash-password acts at once
            command.make_context("pgqueue", arguments)
    else:
        options = {option for each in command.params for option in each.opts}
        assert set(arguments) <= {*options, "--help"}, arguments


def _first(words: list[str], *wanted: str) -> int:
    return next((at for at, word in enumerate(words) if word in wanted), len(words))


def compiles(snippet: Snippet) -> None:
    assert snippet.page in COMPILED, f"{snippet} is run by no test"
    compile(snippet.text, str(snippet), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def is_text(snippet: Snippet) -> None:
    assert snippet.page in TEXT, f"{snippet} is text, and TEXT gives no reason"


def ini(snippet: Snippet) -> None:
    configparser.ConfigParser(interpolation=None).read_string(snippet.text)


READERS: dict[str, Callable[[Snippet], object]] = {
    "python": compiles,
    "sh": shell,
    "text": is_text,
    "ini": ini,
    "json": lambda snippet: [json.loads(line) for line in snippet.text.splitlines()],
    "yaml": lambda snippet: yaml.safe_load(snippet.text),
}


@pytest.mark.parametrize("snippet", [each for each in ALL if each.language != "sql"], ids=str)
def test_a_block_is_run_or_read_by_what_it_is_for(snippet: Snippet) -> None:
    if (snippet.page, snippet.language) not in RUN:
        assert snippet.language in READERS, f"{snippet}: name its language, or call it text"
        READERS[snippet.language](snippet)


def test_the_tables_of_blocks_name_existing_blocks() -> None:
    known = {(each.page, each.language) for each in ALL}
    said = {(page, "python") for page in COMPILED} | {(page, "text") for page in TEXT}
    assert said - known == set()


def test_no_block_is_overlooked() -> None:
    fences = sum(
        len(re.findall(r"^ *```", (ROOT / page).read_text(), re.MULTILINE)) for page in {each.page for each in ALL}
    )
    assert fences == 2 * len(ALL)


@pytest.mark.parametrize(
    "wrong",
    ["queue make orders", "send orders 7 --no-such-option", "receive", "--versoin", "queue create a --lock-duration x"],
)
def test_a_wrong_command_would_be_noticed(wrong: str) -> None:
    with pytest.raises((AssertionError, *typer.BadParameter.__bases__)):
        check_command(wrong.split())
