"""The verbs that take more than one step, written once for the synchronous and the asynchronous face. No I/O."""

from __future__ import annotations

from pgqueue.flows.flow import Begun, Executor, Flow, Line, Pause, Shared, Source, Step, WakeableExecutor, WakeSignal

__all__ = ["Begun", "Executor", "Flow", "Line", "Pause", "Shared", "Source", "Step", "WakeSignal", "WakeableExecutor"]
