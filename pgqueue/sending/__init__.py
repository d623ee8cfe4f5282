"""Overlapped sends: what goes into the next flush, and what to do with its outcome.

Decisions only. The thread and the task that run them are in ``pgqueue.sender`` and ``pgqueue.aio.sender``.
"""

from __future__ import annotations

from pgqueue.sending.flushing import Flusher
from pgqueue.sending.outbox import Outbox, Outgoing, Pending, Portion, log_unread, report

__all__ = ["Flusher", "Outbox", "Outgoing", "Pending", "Portion", "log_unread", "report"]
