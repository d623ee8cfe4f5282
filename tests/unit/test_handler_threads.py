"""A handler that returns just as it exceeds its timeout: one of both ends finishes its message."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace, TracebackType
from typing import Any, cast

import pytest

from pgqueue.worker.handler_threads import HandlerThreads, Slot


class ReturnsNow:
    """The lock of a slot; the slot's thread, which waits for it, clears the slot as soon as it is free."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot

    def __enter__(self) -> None:
        """Held by the thread that replaces."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._slot.messages = ()


def test_the_message_of_a_handler_that_returns_while_it_is_replaced_is_not_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service = SimpleNamespace(options=SimpleNamespace(transaction_batch=1))
    threads = HandlerThreads(cast("Any", service))
    monkeypatch.setattr(threads, "_start_thread", Slot)
    message = cast("Any", object())
    slot = Slot([message], started_at=float("-inf"))
    slot.turning = cast("Any", ReturnsNow(slot))
    threads._slots = [slot]
    assert threads.replace_stuck(timedelta(seconds=1)) == [(message, [])]
    assert slot.is_replaced
    assert threads._slots != [slot]
