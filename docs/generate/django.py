"""The commands of ``manage.py``, from their parsers."""

from __future__ import annotations

from argparse import REMAINDER, Action
from collections.abc import Iterator
from importlib import import_module

from django.core.management.base import BaseCommand

from docs.generate.text import ROOT, code, markdown, table


def management_commands() -> str:
    return table(["command", "options", ""], _rows())


def _rows() -> Iterator[list[str]]:
    inherited = {option for each in _arguments(BaseCommand(), "any") for option in each.option_strings}
    for path in sorted((ROOT / "pgqueue" / "django" / "management" / "commands").glob("[!_]*.py")):
        command = import_module(f"pgqueue.django.management.commands.{path.stem}").Command()
        arguments = [each for each in _arguments(command, path.stem) if not inherited & {*each.option_strings}]
        options = [each.option_strings[0] for each in arguments if each.option_strings]
        words = ["…" if each.nargs == REMAINDER else each.dest.upper() for each in arguments if not each.option_strings]
        yield [f"`manage.py {' '.join([path.stem, *words])}`", code(options), markdown(command.help)]


def _arguments(command: BaseCommand, name: str) -> list[Action]:
    found: list[Action] = command.create_parser("manage.py", name)._actions  # noqa: SLF001 - there is no other way
    return found
