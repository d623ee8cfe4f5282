"""Workers: they process the messages of a queue while the process runs. Decisions are pure; drivers are thin."""

from __future__ import annotations

from pgqueue.worker.handlers import Handlers
from pgqueue.worker.health import Health
from pgqueue.worker.policy import RetryPolicy
from pgqueue.worker.tally import Tally
from pgqueue.worker.worker import Worker

__all__ = ["Handlers", "Health", "RetryPolicy", "Tally", "Worker"]
