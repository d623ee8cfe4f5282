"""The commands of the command line, from their help."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

import pgqueue.cli.places
from docs.generate.text import code, markdown, table
from pgqueue.cli.app import app
from pgqueue.cli.commands import loaded
from pgqueue.cli.group import arguments, place, top
from pgqueue.cli.places import PLACES
from pgqueue.cli.running import HELP_WIDTH

#: The modules of commands in the order of ``pgqueue --help``; one that is not here comes last.
MODULES = (
    "demonstration", "migration", "queues", "sending", "receiving", "selecting", "stats", "doctor", "dashboard",
    "history", "dead_letters", "schedules", "topics", "sweeping", "benching", "access", "working", "spark",
)  # fmt: skip

PLACES_FILE = Path(pgqueue.cli.places.__file__)


def places() -> str:
    """The text of :mod:`pgqueue.cli.places`."""
    lines = [f"    {json.dumps(name)}: ({', '.join(map(json.dumps, where))}),\n" for name, where in PLACES.items()]
    return PLACES_FILE.read_text().partition("PLACES = {")[0] + f"PLACES = {{\n{''.join(lines)}}}\n"


def _found() -> Iterator[tuple[str, tuple[str, str]]]:
    """The names of all commands and groups, with their modules and summaries."""
    modules = sorted(path.stem for path in PLACES_FILE.parent.glob("[!_]*.py"))
    for name in sorted(modules, key=lambda name: MODULES.index(name) if name in MODULES else len(MODULES)):
        module = importlib.import_module(f"pgqueue.cli.{name}")
        groups = [each.name for each in top.registered_groups if each.typer_instance in vars(module).values()]
        alone = [each.name for each in top.registered_commands if each.callback in vars(module).values()]
        yield from ((command, (name, _summary(loaded(command)))) for command in (*groups, *alone) if command)


def _summary(command: Any) -> str:
    """The first sentence of the help, where the command has no shorter summary."""
    first: str = command.help.partition("\n\n")[0].partition(". ")[0]
    return command.short_help or f"{first.removesuffix('.')}."


# The commands as they are now, for all that is generated.
found = dict(_found())
PLACES.clear()
PLACES.update(found)


def commands() -> str:
    return table(["command", "options", ""], _rows(typer.main.get_command(app), "pgqueue"))


def overview() -> str:
    """The output of ``pgqueue --help``."""
    root = typer.main.get_command(app)
    return (
        root.get_help(
            root.context_class(root, info_name="pgqueue", terminal_width=HELP_WIDTH - 2, **root.context_settings)
        )
        + "\n"
    )


def _rows(command: Any, path: str) -> Iterator[list[str]]:
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from _rows(inner, f"{path} {name}")
        return
    places = map(place, arguments(command))
    options = [each.opts[0] for each in command.params if each.param_type_name == "option"]
    help_ = markdown(command.help.split("\n\n")[0])
    yield [f"`{' '.join([path, *places])}`", code(option for option in options if option != "--help"), help_]
