"""The settings of a queue as options, the same in every command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any

import typer

from pgqueue import QueueSettings, QueueStatus
from pgqueue.cli.completion import queue_names
from pgqueue.cli.options import Given, Options
from pgqueue.cli.quantities import NONE, parse_count, parse_duration, parse_rate, parse_size
from pgqueue.model.json_text import decode
from pgqueue.model.queue_settings import SETTINGS, Setting


def _or_none(parse: Callable[[str], Any]) -> Callable[[str], Given]:
    """A parser of optional values. Zero is refused: it could be read as "none" or as "no limit"."""

    def parse_or_none(text: str) -> Given:
        value = None if text == NONE else parse(text)
        if value is not None and not value:
            raise typer.BadParameter(f"{text!r} would leave room for nothing: give more, or {NONE}")
        return Given(value)

    return parse_or_none


def _parse_metadata(text: str) -> Given:
    try:
        return Given(decode(text))
    except ValueError as error:
        raise typer.BadParameter(f"not JSON: {error}") from None


#: Their names are long, and a narrow terminal cuts them in the list of options.
LONG_NAMES = """Expiry: --default-message-time-to-live DURATION, --dead-lettering-on-message-expiration or
--no-dead-lettering-on-message-expiration.
Duplicates: --requires-duplicate-detection or --no-requires-duplicate-detection,
--duplicate-detection-history-time-window DURATION.
Forwarding: --forward-to QUEUE, --forward-dead-lettered-messages-to QUEUE."""


@dataclass(frozen=True)
class Value:
    """How the value of an option is read, and what stands for it in the help."""

    kind: Any
    parse: Callable[[str], Any] | None = None
    metavar: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


QUEUE = Value(str, str, "QUEUE", {"autocompletion": queue_names})
BY_TYPE = {
    "boolean": Value(bool),
    "integer": Value(int, parse_count, "NUMBER"),
    "bigint": Value(int, parse_count, "NUMBER"),
    "double precision": Value(float, parse_rate, "NUMBER"),
    "interval": Value(timedelta, parse_duration, "DURATION"),
    "text": QUEUE,
}
BY_NAME = {
    "max_delivery_count": Value(int, more={"min": 1}),
    "max_message_size": Value(int, parse_size, "SIZE"),
    "status": Value(QueueStatus, more={"case_sensitive": False}),
    "user_metadata": Value(Given, _parse_metadata, "JSON"),
}


def _option(setting: Setting) -> Any:
    value = BY_NAME.get(setting.name) or BY_TYPE[setting.type]
    kind, parse = value.kind, value.parse
    if setting.removal is not None and parse is not None:
        kind, parse = Given, _or_none(parse)
    return Annotated[
        kind | None,
        typer.Option(
            help=setting.option,
            show_default=False,
            parser=parse,
            metavar=value.metavar,
            rich_help_panel=setting.panel,
            **value.more,
        ),
    ]


OPTIONS: dict[str, Any] = {setting.name: _option(setting) for setting in SETTINGS}
LockDuration = OPTIONS["lock_duration"]
Settings = Annotated[QueueSettings, Options(OPTIONS, epilog=LONG_NAMES)]
