"""Groups of commands, and the form of their help, which is the same for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

F = TypeVar("F", bound=Callable[..., Any])


class Helped:
    """Help that fits any width, and names no type of flags."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "help": joined(attributes.get("help") or "")})
        for each in self.params:
            if getattr(each, "is_flag", False):
                each.metavar = ""

    params: list[Any]

    def get_help_option(self, ctx: Any) -> Any:
        option: Any = super().get_help_option(ctx)  # type: ignore[misc]  # of the class beside this one
        if option is not None:
            option.metavar = ""
        return option


class Command(Helped, TyperCommand):
    """A command; brackets in its usage mean that an argument may be left out."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [self.options_metavar or "", *map(place, arguments(self))]


class Subcommands(Helped, TyperGroup):
    """The commands of a group."""


class Group(typer.Typer):
    """A group of such commands."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{"cls": Subcommands, **attributes})

    def command(self, name: str | None = None, **attributes: Any) -> Callable[[F], F]:
        return super().command(name, **{"cls": Command, **attributes})


#: The commands and groups of ``pgqueue`` itself, as far as their modules are loaded.
top = Group()


def arguments(command: Any) -> list[Any]:
    """The arguments of a command, without its options."""
    return [each for each in command.params if each.param_type_name == "argument"]


def place(argument: Any) -> str:
    """An argument as the usage shows it: ``QUEUE``, ``[QUEUE]`` or ``[QUEUE]...``."""
    name = argument.metavar or argument.name.upper()
    return (name if argument.required else f"[{name}]") + ("" if argument.nargs == 1 else "...")


def joined(text: str) -> str:
    """Each paragraph in one line: the terminal wraps it."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
