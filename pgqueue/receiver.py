# Written by `make generate` from pgqueue/aio/receiver.py: change it there.
"""The synchronous receiver: an endless iterator over incoming messages."""

from __future__ import annotations

from types import TracebackType
from typing import Generic, Self, TypeVar, cast

from pgqueue.flows.arrivals import Arrivals
from pgqueue.model.message import PeekedMessage
from pgqueue.transports import drive, forking

MessageT = TypeVar("MessageT", bound=PeekedMessage)


class Receiver(Generic[MessageT]):
    """An endless iterator over the messages of a queue; it waits when there are none.

    It yields one :class:`~pgqueue.ReceivedMessage` at a time; in the mode RECEIVE_AND_DELETE, a
    :class:`~pgqueue.PeekedMessage` that is already deleted. It holds no connection between two messages.
    """

    def __init__(self, arrivals: Arrivals) -> None:
        forking.register_for_reset(arrivals)
        self._arrivals = arrivals
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> MessageT:
        while not self._closed:
            message = drive(self._arrivals.next())
            if message is not None:
                return cast(MessageT, message)
        raise StopIteration

    def close(self) -> None:
        """Ends the iteration, at once or within a second, while a receive in progress ends its wait.

        Messages that were locked ahead but not yielded are given back; they do not count as delivered.
        """
        self._closed = True
        drive(self._arrivals.close())
