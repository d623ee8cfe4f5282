"""Spark reads and writes queues in bulk, exactly once; needs ``pip install 'pgqueue-tx[spark]'``."""

from __future__ import annotations

from pgqueue.spark.foreach_batch import in_transaction
from pgqueue.spark.java import JavaMissing
from pgqueue.spark.reasons import Reason, reason_of
from pgqueue.spark.session import SparkMissing, register, session
from pgqueue.spark.snapshot import snapshot

__all__ = ["JavaMissing", "Reason", "SparkMissing", "in_transaction", "reason_of", "register", "session", "snapshot"]
