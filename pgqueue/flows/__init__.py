"""The verbs that take more than one step, written once for the synchronous and the asynchronous face. No I/O."""

from __future__ import annotations

from pgqueue.flows.flow import (
    Begun,
    Executor,
    Flow,
    Interceptors,
    Line,
    LossSignal,
    Pause,
    Shared,
    Source,
    Step,
    Waiters,
    WakeableExecutor,
    WakeSignal,
)

__all__ = [
    "Begun",
    "Executor",
    "Flow",
    "Interceptors",
    "Line",
    "LossSignal",
    "Pause",
    "Shared",
    "Source",
    "Step",
    "Waiters",
    "WakeSignal",
    "WakeableExecutor",
]
