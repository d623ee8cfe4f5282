"""What OpenTelemetry is told of sends and of handling: spans, counts and durations; see ``docs/observability.md``.

Nothing here imports it for a program that does not use it. Who sends or handles many asks once who watches, a single
send asks each time: that is a look into a dictionary, or two questions to the API where it is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache

from pgqueue.telemetry.unwatched import Processing, Sending, Watcher

__all__ = ["Processing", "Sending", "Watcher", "watcher"]

NOBODY = Watcher()


def watcher() -> Watcher:
    """Who watches at the moment: nobody, where OpenTelemetry is not imported, or the program has set no provider."""
    if sys.modules.get("opentelemetry.trace") is None:  # the SDK imports it, for metrics alone, too
        return NOBODY
    return _current()() or NOBODY


@cache
def _current() -> Callable[[], Watcher | None]:
    from pgqueue.telemetry.observer import current

    return current
