"""Everything the command line offers is explained where people look for it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import pgqueue as library
from pgqueue.cli.app import app
from pgqueue.cli.running import HELP, HELP_WIDTH
from tests.cli.command_line import CommandLine
from tests.fields import TEXT_VALUES

ROOT = Path(__file__).parents[2]


def commands(path: tuple[str, ...] = (), command: Any = None) -> Iterator[tuple[str, Any]]:
    command = command or typer.main.get_command(app)
    yield " ".join(path), command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands((*path, name), inner)


COMMANDS = dict(commands())


@pytest.mark.core
@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_and_option_is_explained(path: str) -> None:
    assert COMMANDS[path].help
    for parameter in COMMANDS[path].params:
        assert parameter.help, f"pgqueue {path} does not explain {parameter.name}"


def test_every_option_is_tested() -> None:
    tests = "\n".join(
        test.read_text() for place in ("cli", "demo", "spark") for test in (ROOT / "tests" / place).glob("test_*.py")
    )
    options = {option for command in COMMANDS.values() for parameter in command.params for option in parameter.opts}
    options -= {f"--{field.replace('_', '-')}" for field in TEXT_VALUES}  # test_schedules.py gives all of these
    assert [option for option in sorted(options) if option.startswith("--") and f'"{option}"' not in tests] == []


@pytest.mark.parametrize("columns", [60, 200])
@pytest.mark.parametrize("path", COMMANDS)
def test_help_fits_the_terminal(path: str, columns: int) -> None:
    shown = CliRunner().invoke(app, [*path.split(), "--help"], env={"COLUMNS": str(columns)}, terminal_width=columns)
    assert shown.exit_code == 0
    assert max(map(len, shown.output.splitlines())) <= columns


@pytest.mark.parametrize("path", COMMANDS)
def test_paragraphs_of_help_are_not_broken_where_the_source_is(path: str) -> None:
    assert not re.search(r"[^\n]\n[^\n]", COMMANDS[path].help)


@pytest.mark.parametrize("path", COMMANDS)
def test_help_names_arguments_once_and_no_type_of_flags(path: str) -> None:
    shown = CliRunner().invoke(app, [*path.split(), "-h"], terminal_width=120)
    assert shown.exit_code == 0
    assert "<bool>" not in shown.output
    assert not re.search(r"[{}]|\[\[", next(line for line in shown.output.splitlines() if "Usage:" in line))


def test_the_help_of_all_commands_loads_none_of_them() -> None:
    program = "import sys\nfrom pgqueue.cli.running import run\nrun(['--help'])\nprint([*sys.modules], file=sys.stderr)"
    environment = {**os.environ, "COLUMNS": str(HELP_WIDTH)}
    command = [sys.executable, "-c", program]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert [name for name in COMMANDS if name and f"  {name} " not in shown.stdout and " " not in name] == []
    assert [
        name
        for name in ("psycopg", "rich", "typer", "pgqueue.cli.queues", "pgqueue.public")
        if f"'{name}'" in shown.stderr
    ] == []


def test_the_help_of_all_commands_is_a_file_where_it_fits(pgqueue: CommandLine) -> None:
    for arguments in (("--help",), ()):
        assert pgqueue(*arguments, COLUMNS=str(HELP_WIDTH)).out == HELP.read_text()
    narrow = pgqueue("--help", COLUMNS="60")
    assert narrow.code == 0
    assert max(map(len, narrow.out.splitlines())) <= 60


def test_the_version_is_that_of_the_library(pgqueue: CommandLine) -> None:
    assert pgqueue("--version").out == f"pgqueue {library.__version__}\n"


def test_without_a_command_the_help_is_shown(pgqueue: CommandLine) -> None:
    for arguments in ((), ("queue",), ("dead-letters",)):
        ended = pgqueue(*arguments)
        assert "--help" in ended.out
        assert ended.err == ""
