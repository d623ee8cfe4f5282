"""The synchronous receiver: an endless iterator over what arrives."""

from __future__ import annotations

from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pgqueue.model.message import PeekedMessage
from pgqueue.model.settings import ReceiveMode

if TYPE_CHECKING:
    from pgqueue.queue import Queue

ONE_SECOND = timedelta(seconds=1)


class Receiver:
    """An endless iterator over the messages of a queue, which waits for what has not come yet.

    It yields a :class:`~pgqueue.ReceivedMessage` each, or, in the mode RECEIVE_AND_DELETE, a
    :class:`~pgqueue.PeekedMessage` that is deleted already. It holds no connection between two messages.
    """

    def __init__(self, queue: Queue, receive_mode: ReceiveMode) -> None:
        self._queue = queue
        self._deletes = receive_mode is ReceiveMode.RECEIVE_AND_DELETE
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
            for message in self._arrived():
                return message
        raise StopIteration

    def close(self) -> None:
        """Ends the iteration: at once, or after the second that a receive under way may still wait."""
        self._closed = True

    def _arrived(self) -> list[PeekedMessage]:
        if self._deletes:
            return self._queue.receive_and_delete(wait=ONE_SECOND)
        return [*self._queue.receive(wait=ONE_SECOND)]
