"""The commands and the groups of them, each loaded when it is used: listing them loads none."""

from __future__ import annotations

import importlib
from collections import UserDict
from dataclasses import dataclass
from typing import Any

import typer

from pgqueue.cli.exit_codes import WRONG_USE
from pgqueue.cli.group import Group, Subcommands, top
from pgqueue.cli.places import PLACES


def loaded(name: str) -> Any:
    """The command or the group of this name, whose module is loaded."""
    alone = Group()
    alone.registered_commands = [each for each in top.registered_commands if each.name == name]
    alone.registered_groups = [each for each in top.registered_groups if each.name == name]
    return typer.main.get_group(alone).commands[name]


@dataclass(frozen=True)
class Suggestion:
    """A command as a shell completes it."""

    value: str
    help: str


class Loading(UserDict[str, Any]):
    """The commands by name: None until one is asked for."""

    def __getitem__(self, name: str) -> Any:
        if self.data[name] is None:
            importlib.import_module(f"pgqueue.cli.{PLACES[name][0]}")
            self.data[name] = loaded(name)
        return self.data[name]


class Commands(Subcommands):
    """The group of all commands. Its own help lists their summaries."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = Loading(dict.fromkeys(PLACES))

    def list_commands(self, ctx: Any) -> list[str]:
        return list(PLACES)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            raise typer.Exit(WRONG_USE)
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [Suggestion(name, summary) for name, (_, summary) in PLACES.items() if name.startswith(incomplete)]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in PLACES.items()])
