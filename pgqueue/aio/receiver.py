"""The asynchronous receiver: an endless asynchronous iterator over incoming messages."""

from __future__ import annotations

from types import TracebackType
from typing import Generic, Self, TypeVar, cast

from pgqueue.flows.arrivals import Arrivals
from pgqueue.model.message import PeekedMessage
from pgqueue.transports import adrive, forking

MessageT = TypeVar("MessageT", bound=PeekedMessage)


class Receiver(Generic[MessageT]):
    """An endless asynchronous iterator over the messages of a queue; it waits when there are none.

    It yields one :class:`~pgqueue.aio.ReceivedMessage` at a time; in the mode RECEIVE_AND_DELETE, a
    :class:`~pgqueue.aio.PeekedMessage` that is already deleted. It holds no connection between two messages.
    """

    def __init__(self, arrivals: Arrivals) -> None:
        forking.register_for_reset(arrivals)
        self._arrivals = arrivals
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> MessageT:
        while not self._closed:
            message = await adrive(self._arrivals.next())
            if message is not None:
                return cast(MessageT, message)
        raise StopAsyncIteration

    async def close(self) -> None:
        """Ends the iteration, at once or within a second, while a receive in progress ends its wait.

        Messages that were locked ahead but not yielded are given back; they do not count as delivered.
        """
        self._closed = True
        await adrive(self._arrivals.close())
