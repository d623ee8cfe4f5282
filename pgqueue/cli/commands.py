"""The commands and the groups of them, each loaded when it is used: listing them loads none."""

from __future__ import annotations

import importlib
from collections import UserDict
from dataclasses import dataclass
from typing import Any

import typer

from pgqueue.cli.exit_codes import WRONG_USE
from pgqueue.cli.group import Group, Subcommands


@dataclass(frozen=True)
class Place:
    """Where a command is: a function of a module, or a Typer application of several; and a summary of one line."""

    module: str
    name: str
    summary: str

    def load(self, command: str) -> Any:
        found = getattr(importlib.import_module(f"pgqueue.cli.{self.module}"), self.name)
        if isinstance(found, typer.Typer):
            group = typer.main.get_group(found)
            group.name = command
            return group
        alone = Group()
        alone.command(command)(found)
        return typer.main.get_group(alone).commands[command]


PLACES = {
    "demo": Place("demonstration", "demo", "Show the whole of it, while consumers are being killed."),
    "migrate": Place("migration", "migrate", "Install or upgrade the schema in a database."),
    "queue": Place("queues", "app", "Create, look at, change and delete queues."),
    "send": Place("sending", "send", "Send a message, or a file of them."),
    "cancel": Place("sending", "cancel", "Cancel scheduled messages before their time comes."),
    "receive": Place("receiving", "receive", "Receive messages, print them, and settle them."),
    "peek": Place("receiving", "peek", "Look at messages without touching them."),
    "explain": Place("explaining", "explain", "Explain why a message is delivered now, or not."),
    "unlock": Place("explaining", "unlock", "Take the lock of a message away from its holder."),
    "stats": Place("stats", "stats", "Count what is in the queues."),
    "sessions": Place("stats", "sessions", "List sessions: who holds which, what waits."),
    "doctor": Place("doctor", "doctor", "Find problems of the queues and their database."),
    "dashboard": Place("dashboard", "dashboard", "Show all of it in a browser, and repair it there."),
    "history": Place("history", "history", "Show what became of messages."),
    "dead-letters": Place("dead_letters", "app", "List, show, resubmit and purge dead letters."),
    "schedule": Place("schedules", "app", "Send messages again and again, by the clock."),
    "topic": Place("topics", "topic", "Create, list and delete topics."),
    "subscription": Place("topics", "subscription", "Create, list, change and delete subscriptions."),
    "sweep": Place("sweeping", "sweep", "Tidy up all queues."),
    "bench": Place("benching", "bench", "Measure what this server does."),
    "grant": Place("access", "grant", "Let a database role use a queue, or all of them."),
    "revoke": Place("access", "revoke", "Take back what was granted."),
    "grants": Place("access", "grants", "List which role may do what."),
    "worker": Place("working", "worker", "Run handlers on messages until SIGTERM or SIGINT."),
    "spark": Place("spark", "app", "Move messages in bulk, with Spark."),
}


@dataclass(frozen=True)
class Suggestion:
    """A command as a shell completes it."""

    value: str
    help: str


class Loading(UserDict[str, Any]):
    """The commands by name: each a place until it is asked for."""

    def __getitem__(self, name: str) -> Any:
        found = self.data[name]
        if isinstance(found, Place):
            found = self.data[name] = found.load(name)
        return found


class Commands(Subcommands):
    """The group of all commands. Its own help lists their summaries."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = Loading(PLACES)

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
        return [Suggestion(name, place.summary) for name, place in PLACES.items() if name.startswith(incomplete)]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, place.summary) for name, place in PLACES.items()])
