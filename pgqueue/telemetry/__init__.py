"""OpenTelemetry for sends and for handling: spans, counts and durations; see ``docs/observability.md``.

Nothing here imports OpenTelemetry for a program that does not use it. Senders and workers ask once whether telemetry is
on, a single send asks each time: a dictionary lookup, or two calls of the API if it is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache

from pgqueue.telemetry.disabled import PROCESSING, Processing, Recorder, Sending

__all__ = ["PROCESSING", "Processing", "Recorder", "Sending", "recorder"]

DISABLED = Recorder()


def recorder() -> Recorder:
    """The current recorder; it does nothing if OpenTelemetry is not imported or the program has set no provider."""
    if sys.modules.get("opentelemetry.trace") is None:  # the SDK imports it, even for metrics alone
        return DISABLED
    return _current()() or DISABLED


@cache
def _current() -> Callable[[], Recorder | None]:
    from pgqueue.telemetry.enabled import current

    return current
