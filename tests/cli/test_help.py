"""Everything the command line offers is explained where people look for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import pgqueue as library
from pgqueue.cli.app import app
from tests.cli.command_line import CommandLine

ROOT = Path(__file__).parents[2]


def commands(path: tuple[str, ...] = (), command: Any = None) -> Iterator[tuple[str, Any]]:
    command = command or typer.main.get_command(app)
    yield " ".join(path), command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands((*path, name), inner)


COMMANDS = dict(commands())


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_and_option_is_explained(path: str) -> None:
    assert COMMANDS[path].help
    for parameter in COMMANDS[path].params:
        assert parameter.help, f"pgqueue {path} does not explain {parameter.name}"


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_and_option_is_on_its_page(path: str) -> None:
    page = (ROOT / "docs" / "command-line.md").read_text()
    assert f"pgqueue {path}".strip() in page
    for parameter in COMMANDS[path].params:
        for option in parameter.opts:
            assert option.startswith("-") is False or f"`{option}" in page, f"{option} of pgqueue {path}"


def test_every_option_is_tested() -> None:
    tests = "\n".join(
        test.read_text() for place in ("cli", "demo") for test in (ROOT / "tests" / place).glob("test_*.py")
    )
    options = {option for command in COMMANDS.values() for parameter in command.params for option in parameter.opts}
    assert [option for option in sorted(options) if option.startswith("--") and f'"{option}"' not in tests] == []


@pytest.mark.parametrize("columns", ["60", "200"])
def test_help_fits_the_terminal(pgqueue: CommandLine, columns: str) -> None:
    for path in COMMANDS:
        ended = pgqueue(*path.split(), "--help", COLUMNS=columns)
        assert ended.code == 0
        assert max(map(len, ended.out.splitlines())) <= int(columns)


def test_the_version_is_that_of_the_library(pgqueue: CommandLine) -> None:
    assert pgqueue("--version").out == f"pgqueue {library.__version__}\n"


def test_without_a_command_the_help_is_shown(pgqueue: CommandLine) -> None:
    for arguments in ((), ("queue",), ("dead-letters",)):
        ended = pgqueue(*arguments)
        assert "--help" in ended.out
        assert ended.err == ""
