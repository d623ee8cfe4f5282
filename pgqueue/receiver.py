"""The synchronous receiver: an endless iterator over what arrives."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from pgqueue.flows.arrivals import Arrivals
from pgqueue.model.message import PeekedMessage
from pgqueue.transports import drive, forking


class Receiver:
    """An endless iterator over the messages of a queue, which waits for what has not come yet.

    It yields a :class:`~pgqueue.ReceivedMessage` each, or, in the mode RECEIVE_AND_DELETE, a
    :class:`~pgqueue.PeekedMessage` that is deleted already. It holds no connection between two messages.
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

    def __next__(self) -> PeekedMessage:
        while not self._closed:
            message = drive(self._arrivals.next())
            if message is not None:
                return message
        raise StopIteration

    def close(self) -> None:
        """Ends the iteration: at once, or after the second that a receive under way may still wait.

        What was locked ahead and not handed out is given back, and not counted as delivered.
        """
        self._closed = True
        drive(self._arrivals.close())
