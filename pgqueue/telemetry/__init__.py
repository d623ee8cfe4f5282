"""What OpenTelemetry is told of sends and of handling: spans, counts and durations; see ``docs/observability.md``.

A program that has not imported OpenTelemetry pays a look into a dictionary for this, one that has set no provider two
questions to the API. Nothing here imports it for a program that does not use it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pgqueue.model.message import PeekedMessage
from pgqueue.telemetry.unwatched import Processing, Sending

if TYPE_CHECKING:
    from pgqueue.telemetry.observer import Observer

__all__ = ["Processing", "Sending", "processing", "sending"]

SENDING, PROCESSING = Sending(), Processing()


def sending(queue: str, count: int = 1) -> Sending:
    """A send of so many messages in one: to be entered, or ended with its outcome."""
    observer = _observer()
    return SENDING if observer is None else observer.sending(queue, count)


def processing(message: PeekedMessage) -> Processing:
    """The handling of one message, with all its tries: to be entered."""
    observer = _observer()
    return PROCESSING if observer is None else observer.processing(message)


def _observer() -> Observer | None:
    if sys.modules.get("opentelemetry") is None:
        return None
    from pgqueue.telemetry import observer

    return observer.current()
