"""Working off a queue for as long as a process lives. What decides is pure; drivers are thin."""

from __future__ import annotations

from pgqueue.worker.dispatcher import Tally
from pgqueue.worker.health import Health
from pgqueue.worker.policy import RetryPolicy
from pgqueue.worker.worker import Worker

__all__ = ["Health", "RetryPolicy", "Tally", "Worker"]
