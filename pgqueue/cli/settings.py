"""The settings of a queue as options, the same in every command."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any

import typer

from pgqueue import QueueSettings, QueueStatus, TopicSettings
from pgqueue.cli.completion import queue_names
from pgqueue.cli.options import Given, Options
from pgqueue.cli.quantities import NONE, parse_count, parse_duration, parse_rate, parse_size
from pgqueue.model.json_text import decode
from pgqueue.model.queue_settings import SETTINGS, Setting


def or_none(parse: Callable[[str], Any]) -> Callable[[str], Given]:
    """A parser of optional values. Zero is refused: it could be read as "none" or as "no limit"."""

    def parseor_none(text: str) -> Given:
        value = None if text == NONE else parse(text)
        if value is not None and not value:
            raise typer.BadParameter(f"{text!r} would leave room for nothing: give more, or {NONE}")
        return Given(value)

    return parseor_none


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


#: The type of an option, and how it is read.
BY_TYPE: dict[str, tuple[Any, dict[str, Any]]] = {
    "boolean": (bool, {}),
    "integer": (int, {"parser": parse_count, "metavar": "NUMBER"}),
    "bigint": (int, {"parser": parse_count, "metavar": "NUMBER"}),
    "double precision": (float, {"parser": parse_rate, "metavar": "NUMBER"}),
    "interval": (timedelta, {"parser": parse_duration, "metavar": "DURATION"}),
    "text": (str, {"parser": str, "metavar": "QUEUE", "autocompletion": queue_names}),
}
BY_NAME: dict[str, tuple[Any, dict[str, Any]]] = {
    "max_delivery_count": (int, {"min": 1}),
    "max_message_size": (int, {"parser": parse_size, "metavar": "SIZE"}),
    "status": (QueueStatus, {"case_sensitive": False}),
    "user_metadata": (Given, {"parser": _parse_metadata, "metavar": "JSON"}),
}


def _option(setting: Setting) -> Any:
    kind, how = BY_NAME.get(setting.name) or BY_TYPE[setting.type]
    if setting.removal is not None:
        kind, how = Given, {**how, "parser": or_none(how["parser"])}
    return Annotated[kind | None, typer.Option(help=setting.option, rich_help_panel=setting.panel, **how)]


class TopicStatus(StrEnum):
    """The status of a topic."""

    ACTIVE = QueueStatus.ACTIVE
    DISABLED = QueueStatus.DISABLED
    SEND_DISABLED = QueueStatus.SEND_DISABLED


OPTIONS: dict[str, Any] = {setting.name: _option(setting) for setting in SETTINGS}
LockDuration = OPTIONS["lock_duration"]
OF_TOPICS: dict[str, Any] = {
    **{each.name: OPTIONS[each.name] for each in SETTINGS if each.is_of_topics},
    "status": Annotated[
        TopicStatus | None, typer.Option(help="Whether the topic accepts sends.", case_sensitive=False)
    ],
}
TopicOptions = Annotated[TopicSettings, Options(OF_TOPICS)]
Settings = Annotated[QueueSettings, Options(OPTIONS, epilog=LONG_NAMES)]
