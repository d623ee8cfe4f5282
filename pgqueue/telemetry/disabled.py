"""Sends and handling that nobody watches: all of this does nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Self

import tenacity

from pgqueue.model.message import PeekedMessage

UNMARKED: AbstractContextManager[None] = nullcontext()


class Sending:
    """A send, from before the message is encoded to its outcome. ``trace`` is what the message carries of it."""

    trace: Mapping[str, str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """The send has ended, with an error or well."""

    def stored(self, numbers: Sequence[int]) -> None:
        """The sequence numbers that the messages got."""

    def end(self, outcome: int | BaseException) -> None:
        """For a send that was not entered, because others begin before it ends."""


class Processing:
    """The handling of a message, all tries of its transaction together."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """The handling has ended, with an error or well."""

    def at_work(self) -> AbstractContextManager[None]:
        """While this is entered, what happens belongs to the handling of this message."""
        return UNMARKED

    def failed(self, failure: BaseException) -> None:
        """What the handling failed with, where that is not raised."""

    def tries_again(self, state: tenacity.RetryCallState) -> None:
        """A transaction has failed for a passing reason, and is begun again."""


SENDING, PROCESSING = Sending(), Processing()


class Recorder:
    """Who watches; this one does not look."""

    def sending(self, queue: str, count: int = 1) -> Sending:
        """A send of so many messages in one: to be entered, or ended with its outcome."""
        return SENDING

    def processing(self, message: PeekedMessage) -> Processing:
        """The handling of one message, with all its tries: to be entered."""
        return PROCESSING
