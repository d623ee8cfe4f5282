"""The commands of the command line, from their help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from docs.generate.text import code, markdown, table
from pgqueue.cli.app import app
from pgqueue.cli.group import arguments, place
from pgqueue.cli.running import HELP_WIDTH


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
