"""The settings of a queue as options, the same in every command."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from inspect import Parameter
from typing import Annotated, Any

import typer

from pgqueue import QueueStatus
from pgqueue.cli.quantities import NONE, parse_count, parse_duration, parse_size
from pgqueue.model.json_text import decode


@dataclass(frozen=True)
class Given:
    """What was said for an option, where None can be said and is not the same as nothing."""

    value: Any


def _or_none(parse: Callable[[str], Any]) -> Callable[[str], Given]:
    """Reads what may be absent. Zero would mean the same, and is refused, for nobody can tell."""

    def parse_or_none(text: str) -> Given:
        value = None if text == NONE else parse(text)
        if value is not None and not value:
            raise typer.BadParameter(f"{text!r} would leave room for nothing: say more, or {NONE}")
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
--duplicate-detection-history-time-window DURATION."""
PANEL = "Expiry and duplicates"


def _setting(meaning: str, *names: str, **options: Any) -> Any:
    return typer.Option(*names, help=meaning, show_default=False, **options)


LockDuration = Annotated[
    timedelta | None,
    _setting(
        "How long a message is locked by who receives it, such as 30s or 5m.", parser=parse_duration, metavar="DURATION"
    ),
]
MaxDeliveryCount = Annotated[int | None, _setting("A message that was delivered so often is dead-lettered.", min=1)]
MaxMessageSize = Annotated[
    Given | None,
    _setting(
        f"The most a body and its properties may have: bytes, 64kB, 1MB; {NONE} is no bound.",
        parser=_or_none(parse_size),
        metavar="SIZE",
    ),
]
Status = Annotated[QueueStatus | None, _setting("Whether it may be sent to and received from.", case_sensitive=False)]
UserMetadata = Annotated[
    Given | None,
    _setting("Anything you want to keep with the queue; null is nothing.", parser=_parse_metadata, metavar="JSON"),
]
DefaultMessageTimeToLive = Annotated[
    Given | None,
    _setting(
        f"Messages expire after so long, or sooner if they say so, such as 2d; {NONE} is never.",
        parser=_or_none(parse_duration),
        metavar="DURATION",
        rich_help_panel=PANEL,
    ),
]
DeadLetteringOnMessageExpiration = Annotated[
    bool | None, _setting("Whether messages that expire are dead-lettered, or dropped.", rich_help_panel=PANEL)
]
RequiresDuplicateDetection = Annotated[
    bool | None, _setting("Whether a message id that was sent before is stored again, or not.", rich_help_panel=PANEL)
]
DuplicateDetectionHistoryTimeWindow = Annotated[
    timedelta | None,
    _setting(
        "How long a message id is known, from 20s to 7d; 10m unless said.",
        parser=parse_duration,
        metavar="DURATION",
        rich_help_panel=PANEL,
    ),
]
MaxQueueLength = Annotated[
    Given | None,
    _setting(
        f"The most messages it may hold, dead letters aside; {NONE} is no bound.",
        parser=_or_none(parse_count),
        metavar="NUMBER",
    ),
]
RetainHistory = Annotated[
    Given | None,
    _setting(
        f"How long `pgqueue history` knows what became of messages, up to 60d; {NONE} keeps nothing.",
        parser=_or_none(parse_duration),
        metavar="DURATION",
    ),
]

SETTINGS: dict[str, Any] = {
    "lock_duration": LockDuration,
    "max_delivery_count": MaxDeliveryCount,
    "max_message_size": MaxMessageSize,
    "status": Status,
    "user_metadata": UserMetadata,
    "default_message_time_to_live": DefaultMessageTimeToLive,
    "dead_lettering_on_message_expiration": DeadLetteringOnMessageExpiration,
    "requires_duplicate_detection": RequiresDuplicateDetection,
    "duplicate_detection_history_time_window": DuplicateDetectionHistoryTimeWindow,
    "max_queue_length": MaxQueueLength,
    "retain_history": RetainHistory,
}


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command an option for each setting, and those that were said as its argument ``settings``."""
    signature = inspect.signature(command, eval_str=True)
    own = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in signature.parameters.values()]
    place = [parameter.name for parameter in own].index("settings")
    own[place : place + 1] = [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=None)
        for name, annotation in SETTINGS.items()
    ]

    @functools.wraps(command)
    def told(*database: Any, **arguments: Any) -> None:
        said = {name: arguments.pop(name) for name in SETTINGS}
        settings = {
            name: value.value if isinstance(value, Given) else value
            for name, value in said.items()
            if value is not None
        }
        command(*database, settings=settings, **arguments)

    told.__doc__ = f"{inspect.getdoc(command)}\n\n{LONG_NAMES}"
    told.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]  # inspect reads it
    return told
