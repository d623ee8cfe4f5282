"""A loop's reaction to failures: each kind of failure is logged once, and so is the end of the outage."""

from __future__ import annotations

import logging

import pytest

from pgqueue.errors import ConnectionLostError, OperationTimeoutError, QueueNotFoundError, SchemaVersionError
from pgqueue.leases.loop import Heartbeat, Recovery


def test_alternating_failures_are_logged_once_an_outage(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pgqueue")
    recovery = Recovery("claims", Heartbeat())
    for _ in range(2):
        for _ in range(5):
            recovery.failed(ConnectionLostError("too many clients"))
            recovery.failed(OperationTimeoutError("the pool had none to give"))
        recovery.passed()
        recovery.passed()
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "INFO"] * 2


def test_a_function_that_is_missing_once_may_be_an_upgrade() -> None:
    recovery = Recovery("claims", Heartbeat())
    assert recovery.failed(SchemaVersionError("the function is not there")) > 0
    with pytest.raises(SchemaVersionError):
        recovery.failed(SchemaVersionError("it is not there"))
    recovery.passed()
    assert recovery.failed(SchemaVersionError("another is not there")) > 0


def test_an_error_that_waiting_cannot_repair_is_raised_at_once() -> None:
    with pytest.raises(QueueNotFoundError):
        Recovery("claims", Heartbeat()).failed(QueueNotFoundError("there is none"))
