"""Options that several commands have, from tables."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any


def with_options(argument: str, options: Mapping[str, Any], epilog: str = "") -> Callable[..., Callable[..., None]]:
    """A decorator: gives a command these options, and their values by name as one argument."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in signature.parameters.values()]
        place = [parameter.name for parameter in own].index(argument)
        own[place : place + 1] = [
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=None)
            for name, annotation in options.items()
        ]

        @functools.wraps(command)
        def run(*database: Any, **arguments: Any) -> None:
            values = {name: arguments.pop(name) for name in options}
            command(*database, **arguments, **{argument: values})

        run.__doc__ = f"{inspect.getdoc(command)}\n\n{epilog}".rstrip()
        run.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]  # inspect reads it
        return run

    return add
