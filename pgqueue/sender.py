# Written by `make generate` from pgqueue/aio/sender.py: change it there.
"""The synchronous sender: overlapped sends, run by a thread of its own."""

from __future__ import annotations

import threading
import weakref
from datetime import timedelta
from functools import partial
from math import inf
from types import TracebackType
from typing import Generic, Self

import tenacity

from pgqueue.errors import OperationTimeoutError, PGQueueError
from pgqueue.flows import Source
from pgqueue.model.arguments import duration
from pgqueue.model.body_type import BodyType
from pgqueue.model.message import BodyT, Message, SequenceNumber
from pgqueue.sending import Flusher, Outbox, Outgoing, Pending, log_unread, report
from pgqueue.transports import drive, leave_blocks, time_left


# this face only: how to wait
def _is_set(event: threading.Event, seconds: float) -> bool:
    return event.wait(None if seconds == inf else seconds)


def _has_room(room: threading.Semaphore, seconds: float) -> bool:
    return room.acquire(timeout=None if seconds == inf else seconds)


# end


class PendingSend(Pending):
    """A send in flight: its ``message``, and its outcome once that is known."""

    def result(self, *, timeout: timedelta | None = None) -> SequenceNumber:
        """Waits for the outcome; returns the sequence number or raises what :meth:`Queue.send` raises.

        Raises OperationTimeoutError when there is no outcome after ``timeout``; the send is still in flight then.
        """
        self._outbox.check_process()
        patience = duration("timeout", timeout)
        seconds = time_left(inf if patience is None else patience.total_seconds())
        settled = self._outbox.wait_for(self._send, threading.Event)
        if settled is not None and not _is_set(settled, seconds):
            raise OperationTimeoutError(f"the send has no outcome after {timedelta(seconds=seconds)}, and is still out")
        return self._outbox.read(self._send)


class Sender(Generic[BodyT]):
    """Overlapped sends. Use it in a ``with`` block; made by :meth:`pgqueue.Queue.sender`.

    Messages that arrive while a flush is in flight go into the next flush. Each message is stored exactly once and its
    outcome is known, even when the connection breaks: the sender learns the transaction id of a flush before it sends
    the COMMIT, and later asks the database for the outcome of that transaction. The outcome is a
    :class:`~pgqueue.errors.CommitInDoubtError` only if no primary answers for 15 s, the sender is cancelled, or the
    server has crashed or failed over meanwhile.

    Safe to use from several threads. It holds one connection while a send is in flight. At the end of the program it
    waits for the sends in flight, as it does at the end of the block.
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
        # this face only: the thread begins at once
        arrived = threading.Event()
        self._room = threading.Semaphore(max_in_flight)
        self._outbox = Outbox(queue, arrived, self._room.release, body_type)
        flusher = Flusher(self._outbox, source, retry)
        work = partial(_empty, self._outbox, flusher, arrived)
        self._thread = threading.Thread(target=work, name=f"pgqueue-sender-{queue}", daemon=True)
        self._thread.start()
        self._finalizer = weakref.finalize(self, _finish, self._outbox, self._thread)
        # end

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()
        report(self._outbox, error)

    def send(self, message: Message[BodyT]) -> PendingSend:
        """Starts a send of the message as it is now; waits only while ``max_in_flight`` sends are in flight.

        Raises:
            InvalidArgumentError: it is no message, or a field has the wrong type or is out of its bounds.
            MessageNotSerializableError: a field cannot be stored; the error names it, and nothing is sent.
            InvalidStateError: the sender is closed, or belongs to the parent process of a fork.
            SendError: a thousand sends have failed, and their outcomes were not read.
        """
        self._outbox.check_open()
        if self._interceptors is not None:
            message = self._interceptors.changed(message)
        send = Outgoing(message, self._outbox)
        has_room = False
        try:
            has_room = _has_room(self._room, time_left())
            if not has_room:
                raise OperationTimeoutError("no send has ended before the deadline of the block: nothing was sent")
            self._outbox.put(send)
        except BaseException as error:
            if has_room:
                self._room.release()
            send.span.end(error)
            raise
        # this face only: the thread has begun
        # end
        return PendingSend(send, self._outbox)

    def close(self) -> None:
        """Waits for all sends in flight. Closing twice has no further effect.

        Raises:
            SendError: sends have failed, and their outcomes were not read.
        """
        self._end()
        self._outbox.raise_unread()

    # this face only: how its thread ends
    def _end(self) -> None:
        self._outbox.check_process()
        self._outbox.close()
        self._thread.join()
        self._finalizer.detach()


def _empty(outbox: Outbox, flusher: Flusher, arrived: threading.Event) -> None:
    def wait() -> None:
        arrived.wait()
        arrived.clear()

    leave_blocks()
    try:
        drive(flusher.run(wait))
    except BaseException as failure:  # noqa: BLE001 - whatever it is, no caller may wait for ever
        outbox.fail(failure)


def _finish(outbox: Outbox, thread: threading.Thread) -> None:
    """Ends a sender that was dropped without being closed: sends what is in flight, and logs unread failures."""
    try:
        outbox.check_process()
    except PGQueueError:
        return
    outbox.close()
    if threading.current_thread() is not thread:
        thread.join()
    log_unread(outbox)


# end
