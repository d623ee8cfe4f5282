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
from pgqueue.cli.completion import queue_names
from pgqueue.cli.quantities import NONE, parse_count, parse_duration, parse_rate, parse_size
from pgqueue.model.json_text import decode


@dataclass(frozen=True)
class Given:
    """The value given for an option where None is a value, too."""

    value: Any


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
PANEL = "Expiry and duplicates"
FORWARDING = "Forwarding"


def _setting(meaning: str, *names: str, **options: Any) -> Any:
    return typer.Option(*names, help=meaning, show_default=False, **options)


LockDuration = Annotated[
    timedelta | None,
    _setting("How long a receive locks a message, such as 30s or 5m.", parser=parse_duration, metavar="DURATION"),
]
MaxDeliveryCount = Annotated[
    int | None, _setting("The number of deliveries after which a message is dead-lettered.", min=1)
]
MaxMessageSize = Annotated[
    Given | None,
    _setting(
        f"The maximum size of a body and its properties: bytes, 64kB, 1MB; {NONE} for no limit.",
        parser=_or_none(parse_size),
        metavar="SIZE",
    ),
]
Status = Annotated[QueueStatus | None, _setting("Whether the queue accepts sends and receives.", case_sensitive=False)]
UserMetadata = Annotated[
    Given | None,
    _setting("Any JSON value to keep with the queue; null for none.", parser=_parse_metadata, metavar="JSON"),
]
DefaultMessageTimeToLive = Annotated[
    Given | None,
    _setting(
        f"How long until messages expire, such as 2d, or sooner by their own; {NONE} for never.",
        parser=_or_none(parse_duration),
        metavar="DURATION",
        rich_help_panel=PANEL,
    ),
]
DeadLetteringOnMessageExpiration = Annotated[
    bool | None, _setting("Whether expired messages are dead-lettered or deleted.", rich_help_panel=PANEL)
]
RequiresDuplicateDetection = Annotated[
    bool | None, _setting("Whether a message whose id was sent before is discarded.", rich_help_panel=PANEL)
]
DuplicateDetectionHistoryTimeWindow = Annotated[
    timedelta | None,
    _setting(
        "How long a message id is remembered, from 20s to 7d; by default 10m.",
        parser=parse_duration,
        metavar="DURATION",
        rich_help_panel=PANEL,
    ),
]
MaxQueueLength = Annotated[
    Given | None,
    _setting(
        f"The maximum number of messages, without dead letters; {NONE} for no limit.",
        parser=_or_none(parse_count),
        metavar="NUMBER",
    ),
]
RetainHistory = Annotated[
    Given | None,
    _setting(
        f"How long the history of settled messages is kept, up to 60d; {NONE} for no history.",
        parser=_or_none(parse_duration),
        metavar="DURATION",
    ),
]
RetainErrors = Annotated[
    Given | None,
    _setting(
        f"How many errors of failed deliveries each message keeps, up to 100; {NONE} keeps the last one only.",
        parser=_or_none(parse_count),
        metavar="NUMBER",
    ),
]
AutoDeleteOnIdle = Annotated[
    Given | None,
    _setting(
        f"After how long without a send, a receive or a peek a sweep deletes the queue, 5m or more; {NONE} for never.",
        parser=_or_none(parse_duration),
        metavar="DURATION",
    ),
]
ForwardTo = Annotated[
    Given | None,
    _setting(
        f"The queue to which what is sent here goes instead; {NONE} for no forwarding.",
        parser=_or_none(str),
        metavar="QUEUE",
        autocompletion=queue_names,
        rich_help_panel=FORWARDING,
    ),
]
ForwardDeadLetteredMessagesTo = Annotated[
    Given | None,
    _setting(
        f"The queue to which what dies here goes; {NONE} for the dead letters of this one.",
        parser=_or_none(str),
        metavar="QUEUE",
        autocompletion=queue_names,
        rich_help_panel=FORWARDING,
    ),
]
MaxReceiveRate = Annotated[
    Given | None,
    _setting(
        f"How many messages a second the queue hands out, such as 100 or 0.5; {NONE} for any number.",
        parser=_or_none(parse_rate),
        metavar="NUMBER",
    ),
]
MaxConcurrent = Annotated[
    Given | None,
    _setting(
        f"How many messages the queue hands out at a time; {NONE} for any number.",
        parser=_or_none(parse_count),
        metavar="NUMBER",
    ),
]
PriorityAgeing = Annotated[
    Given | None,
    _setting(
        f"After how long a waiting message rises by one priority, such as 1m; {NONE} for never.",
        parser=_or_none(parse_duration),
        metavar="DURATION",
    ),
]

RequiresSession = Annotated[
    bool | None, _setting("Whether messages belong to sessions; said at creation only.", rich_help_panel=PANEL)
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
    "retain_errors": RetainErrors,
    "auto_delete_on_idle": AutoDeleteOnIdle,
    "requires_session": RequiresSession,
    "forward_to": ForwardTo,
    "forward_dead_lettered_messages_to": ForwardDeadLetteredMessagesTo,
    "max_receive_rate": MaxReceiveRate,
    "max_concurrent": MaxConcurrent,
    "priority_ageing": PriorityAgeing,
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
