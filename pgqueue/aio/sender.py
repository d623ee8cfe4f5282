"""The asynchronous sender: overlapped sends, run by a task of its own."""

from __future__ import annotations

import asyncio
import weakref
from datetime import timedelta
from functools import partial
from math import inf
from types import TracebackType
from typing import Generic, Self

import tenacity

from pgqueue.errors import OperationTimeoutError
from pgqueue.flows import Source
from pgqueue.model.arguments import duration
from pgqueue.model.body_type import BodyType
from pgqueue.model.message import BodyT, Message, SequenceNumber
from pgqueue.sending import Flusher, Outbox, Outgoing, Pending, log_unread, report
from pgqueue.transports import adrive, leave_blocks, time_left


# this face only: how to wait
async def _is_set(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(None if seconds == inf else seconds):
            return await event.wait()
    except TimeoutError:
        return False


async def _has_room(room: asyncio.Semaphore, seconds: float) -> bool:
    if seconds == inf:
        return await room.acquire()
    try:
        async with asyncio.timeout(seconds):
            return await room.acquire()
    except TimeoutError:
        return False


# end


class PendingSend(Pending):
    """A send in flight: its ``message``, and its outcome once that is known."""

    async def result(self, *, timeout: timedelta | None = None) -> SequenceNumber:  # noqa: ASYNC109 - the same in both faces
        """Waits for the outcome; returns the sequence number or raises what :meth:`Queue.send` raises.

        Raises OperationTimeoutError when there is no outcome after ``timeout``; the send is still in flight then.
        """
        self._outbox.check_process()
        patience = duration("timeout", timeout)
        seconds = time_left(inf if patience is None else patience.total_seconds())
        settled = self._outbox.wait_for(self._send, asyncio.Event)
        if settled is not None and not await _is_set(settled, seconds):
            raise OperationTimeoutError(f"the send has no outcome after {timedelta(seconds=seconds)}, and is still out")
        return self._outbox.read(self._send)


class Sender(Generic[BodyT]):
    """Overlapped sends. Use it in an ``async with`` block; made by :meth:`pgqueue.aio.Queue.sender`.

    Messages that arrive while a flush is in flight go into the next flush. Each message is stored exactly once and its
    outcome is known, even when the connection breaks: the sender learns the transaction id of a flush before it sends
    the COMMIT, and later asks the database for the outcome of that transaction. The outcome is a
    :class:`~pgqueue.errors.CommitInDoubtError` only if no primary answers for 15 s, the sender is cancelled, or the
    server has crashed or failed over meanwhile.

    Use it in one event loop, from any number of its tasks. It holds one connection while a send is in flight.
    """

    def __init__(
        self,
        queue: str,
        source: Source,
        *,
        max_in_flight: int,
        retry: tenacity.Retrying,
        body_type: BodyType | None = None,
    ) -> None:
        self._interceptors = source.interceptors
        # this face only: the task begins with the first send
        self._arrived = asyncio.Event()
        self._room = asyncio.Semaphore(max_in_flight)
        self._outbox = Outbox(queue, self._arrived, partial(_make_room, self._room), body_type)
        self._flusher = Flusher(self._outbox, source, retry)
        self._task: asyncio.Task[None] | None = None
        # end

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._end()
        report(self._outbox, error)

    async def send(self, message: Message[BodyT]) -> PendingSend:
        """Starts a send of the message as it is now; waits only while ``max_in_flight`` sends are in flight.

        Raises:
            InvalidArgumentError: it is no message, or a field has the wrong type or is out of its bounds.
            MessageNotSerializableError: a field cannot be stored; the error names it, and nothing is sent.
            InvalidStateError: the sender is closed, or belongs to the parent process of a fork.
            SendError: a thousand sends have failed, and their outcomes were not read.
        """
        self._outbox.check_open()
        if self._interceptors is not None:
            message = await self._interceptors.changed(message)
        send = Outgoing(message, self._outbox)
        has_room = False
        try:
            has_room = await _has_room(self._room, time_left())
            if not has_room:
                raise OperationTimeoutError("no send has ended before the deadline of the block: nothing was sent")
            self._outbox.put(send)
        except BaseException as error:
            if has_room:
                self._room.release()
            send.span.end(error)
            raise
        # this face only: the task begins with the first send
        if self._task is None:
            work = _empty(self._outbox, self._flusher, self._arrived)
            self._task = asyncio.create_task(work, name=f"pgqueue-sender-{self._outbox.queue}")
            weakref.finalize(self, _finish, self._outbox, self._task).atexit = False
        # end
        return PendingSend(send, self._outbox)

    async def close(self) -> None:
        """Waits for all sends in flight. Closing twice has no further effect.

        Raises:
            SendError: sends have failed, and their outcomes were not read.
        """
        await self._end()
        self._outbox.raise_unread()

    # this face only: how its task ends
    async def _end(self) -> None:
        self._outbox.check_process()
        self._outbox.close()
        if self._task is not None:
            await asyncio.wait({self._task})


def _make_room(room: asyncio.Semaphore, places: int) -> None:
    for _ in range(places):
        room.release()


async def _empty(outbox: Outbox, flusher: Flusher, arrived: asyncio.Event) -> None:
    async def wait() -> None:
        await arrived.wait()
        arrived.clear()

    leave_blocks()
    try:
        await adrive(flusher.run(wait))
    except BaseException as failure:
        outbox.fail(failure)  # no caller may wait for ever
        if not isinstance(failure, Exception):
            raise


def _finish(outbox: Outbox, task: asyncio.Task[None]) -> None:
    """Ends a sender that was dropped without being closed: sends what is in flight, and logs unread failures."""
    loop = task.get_loop()
    if not loop.is_closed():
        loop.call_soon_threadsafe(outbox.close)
        loop.call_soon_threadsafe(task.add_done_callback, lambda _: log_unread(outbox))


# end
