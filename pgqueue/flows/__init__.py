"""The verbs that take more than one step, written once for the synchronous and the asynchronous face. No I/O."""

from __future__ import annotations

from pgqueue.flows.flow import Begun, Bell, Executor, Flow, Line, Pause, Shared, Source, Step, Told

__all__ = ["Begun", "Bell", "Executor", "Flow", "Line", "Pause", "Shared", "Source", "Step", "Told"]
