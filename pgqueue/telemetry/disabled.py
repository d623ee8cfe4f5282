"""Telemetry that is off: everything here does nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Self

from pgqueue.model.message import PeekedMessage

UNMARKED: AbstractContextManager[None] = nullcontext()


class Sending:
    """A send, from before the message is encoded to its outcome. ``trace`` is its trace context for the message."""

    trace: Mapping[str, str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """The send has ended, successfully or with an error."""

    def stored(self, numbers: Sequence[int]) -> None:
        """The sequence numbers of the stored messages."""

    def end(self, outcome: int | BaseException) -> None:
        """For a send that is not used as a context manager, because other sends begin before it ends."""


class Processing:
    """The handling of a message, with all attempts of its transaction."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """The handling has ended, successfully or with an error."""

    def at_work(self) -> AbstractContextManager[None]:
        """A context manager: what happens in it belongs to the handling of this message."""
        return UNMARKED

    def failed(self, failure: BaseException) -> None:
        """The error of the handling, if it is not raised."""

    def tries_again(self, attempt: int, failure: BaseException) -> None:
        """A transaction has failed for a transient reason, and is begun again."""


SENDING, PROCESSING = Sending(), Processing()


class Recorder:
    """The recorder when telemetry is off."""

    is_on = False

    def sending(self, queue: str, count: int = 1) -> Sending:
        """One send of this many messages: a context manager, or to be ended with its outcome."""
        return SENDING

    def processing(self, message: PeekedMessage) -> Processing:
        """The handling of one message, with all its attempts: a context manager."""
        return PROCESSING
