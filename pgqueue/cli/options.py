"""Options of commands: those that several have, and parameters that stand for many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import Parameter
from typing import Annotated, Any

import typer

from pgqueue.cli.quantities import parse_duration, parse_moment


def flag(name: str, meaning: str, **more: Any) -> Any:
    """An option without a value, and without its opposite."""
    return typer.Option(f"--{name}", help=meaning, **more)


def duration(meaning: str, **more: Any) -> Any:
    return typer.Option(help=meaning, parser=parse_duration, metavar="DURATION", **more)


def moment(meaning: str, **more: Any) -> Any:
    return typer.Option(help=meaning, parser=parse_moment, metavar="TIME", **more)


MaxMessages = Annotated[int, typer.Option("--max-messages", "-n", min=1, help="The maximum number of messages.")]
Start = Annotated[
    int, typer.Option("--from", metavar="NUMBER", help="Begin with this sequence number.", show_default=False)
]


@dataclass(frozen=True)
class Given:
    """The value given for an option where None is a value, too."""

    value: Any


@dataclass(frozen=True)
class Options:
    """Marks a parameter of a command that stands for these options: its value are those that were given, by name."""

    options: Mapping[str, Any]
    """The annotation of each."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    epilog: str = ""
    """A last paragraph for the help of the command."""

    def parameters(self) -> list[Parameter]:
        return [
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=option, default=self.defaults.get(name))
            for name, option in self.options.items()
        ]

    def taken_from(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Take the values of these options out of the arguments."""
        values = {name: arguments.pop(name) for name in self.options}
        given = {name: value for name, value in values.items() if value is not None}
        return {name: value.value if isinstance(value, Given) else value for name, value in given.items()}
