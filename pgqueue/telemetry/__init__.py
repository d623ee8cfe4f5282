"""What OpenTelemetry is told of sends and of handling: spans, counts and durations; see ``docs/observability.md``.

Nothing here imports it for a program that does not use it. Who sends or handles many asks once who watches, a single
send asks each time: that is a look into a dictionary, or two questions to the API where it is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache

from pgqueue.telemetry.disabled import Processing, Recorder, Sending

__all__ = ["Processing", "Recorder", "Sending", "recorder"]

NOBODY = Recorder()


def recorder() -> Recorder:
    """Who watches at the moment: nobody, where OpenTelemetry is not imported, or the program has set no provider."""
    if sys.modules.get("opentelemetry.trace") is None:  # the SDK imports it, for metrics alone, too
        return NOBODY
    return _current()() or NOBODY


@cache
def _current() -> Callable[[], Recorder | None]:
    from pgqueue.telemetry.enabled import current

    return current
