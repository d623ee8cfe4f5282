"""What a loop says while it fails: each kind of failure once, and that it is over."""

from __future__ import annotations

import logging

import pytest

from pgqueue.errors import ConnectionLostError, OperationTimeoutError
from pgqueue.worker.health import Beat
from pgqueue.worker.loop import Recovery


def test_failures_that_take_turns_are_told_of_once_an_outage(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pgqueue")
    recovery = Recovery("claims", Beat())
    for _ in range(2):
        for _ in range(5):
            recovery.failed(ConnectionLostError("too many clients"))
            recovery.failed(OperationTimeoutError("the pool had none to give"))
        recovery.passed()
        recovery.passed()
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "INFO"] * 2
