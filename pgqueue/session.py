# Written by `make generate` from pgqueue/aio/session.py: change it there.
"""The synchronous face of a session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self

from pgqueue import transports
from pgqueue.flows import Shared, Source, sessions, validating
from pgqueue.flows.locked import locked
from pgqueue.model.holder import this_process
from pgqueue.model.lock_lost import LockLost
from pgqueue.model.message import BodyT, PeekedMessage, from_row
from pgqueue.model.row import Row
from pgqueue.received import ReceivedMessage
from pgqueue.statements import sessions as verbs
from pgqueue.transports import drive

if TYPE_CHECKING:
    from pgqueue.transports.typed import Transaction


class Session(sessions.AcceptedSession, Generic[BodyT]):
    """A session that is locked for you: only you receive its messages, in their order.

    Made by :meth:`pgqueue.Queue.accept_session`. ``locked_until`` is when the lock expires, by the clock of the
    database: renew it before. The locks of its messages are its own. Use it in a ``with`` block, whose end
    releases it.

    A lock that is lost raises :class:`~pgqueue.errors.SessionLockLostError`: from every method here, and when a message
    is settled.
    """

    _lock_lost = LockLost
    lock_lost: LockLost

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def __iter__(self) -> Iterator[ReceivedMessage[BodyT]]:
        """Receives one message after the other, and ends when none is left. Settle each before you ask for the next."""
        while found := self.receive():
            yield found[0]

    def receive(self, *, max_messages: int = 1, wait: timedelta | None = None) -> list[ReceivedMessage[BodyT]]:
        """Returns up to ``max_messages`` that you have not received yet under this lock, in the order of the session.

        Settle them like any other message, in your transaction if you like. Waits up to ``wait`` for the first one;
        returns [] when none came.
        """
        statement = verbs.receive_from_session(self.lock, max_messages=max_messages)
        return drive(validating.receive(self.queue, statement, self._source, wait, self._make))

    def receive_deferred(self, sequence_numbers: Sequence[int]) -> list[ReceivedMessage[BodyT]]:
        """Returns messages of this session that were deferred, by their sequence numbers.

        Raises:
            MessageNotFoundError: one of the messages is not deferred in this session; none was locked.
        """
        statement = verbs.receive_deferred(self.lock, sequence_numbers, locked_by=this_process())
        return drive(validating.receive_at_once(statement, self._source, self._make))

    def peek(self, *, max_messages: int = 1, from_sequence_number: int = 0) -> list[PeekedMessage[BodyT]]:
        """Returns messages of this session by their numbers, including locked and deferred ones, not scheduled ones.

        Returns up to ``max_messages``, starting at ``from_sequence_number``. Locks nothing, and does not count as a
        delivery.
        """
        statement = verbs.peek_session(self.lock, max_messages=max_messages, from_sequence_number=from_sequence_number)
        return [
            from_row(PeekedMessage, self.queue, row, self._body_type) for row in drive(self._source.execute(statement))
        ]

    def get_state(self, *, transaction: Transaction | None = None) -> Any:
        """Returns the state of the session: any JSON, or bytes; None if it has none.

        With ``transaction`` this is the state as your transaction sees it.
        """
        return drive(self._where(transaction).execute(verbs.get_session_state(self.lock)))

    def set_state(self, state: Any, *, transaction: Transaction | None = None) -> None:
        """Sets the state of the session: any JSON, or bytes, up to 256 KiB; None removes it.

        With ``transaction`` it is part of your transaction: set in the one that completes messages, it always agrees
        with them. The state stays when the session is empty, until it is removed.
        """
        drive(self._where(transaction).execute(verbs.set_session_state(self.lock, state)))

    def renew_lock(self, *, lock_duration: timedelta | None = None) -> datetime:
        """Renews the lock of the session, and of its messages, for ``lock_duration`` from now.

        By default that of the queue. Returns when it expires. While a transaction that has set the state is open,
        no one can accept the session: the lock is kept but not renewed.
        """
        return drive(sessions.renew_lock(self, lock_duration))

    def release(self, *, transaction: Transaction | None = None) -> None:
        """Releases the session: others can accept it, behind those that wait already.

        Messages that you have received and not settled are delivered again. While a transaction of yours is open that
        has set the state, pass it as ``transaction``; otherwise the lock expires by itself. No error if it is lost.
        """
        drive(sessions.release(self, self._where(transaction)))

    def _make(self, row: Row) -> ReceivedMessage[BodyT]:
        return locked(ReceivedMessage, self.queue, row, self._source, self._body_type)

    def _where(self, transaction: Transaction | None) -> Shared | Source:
        return transports.where(transaction, self._source, asynchronous=False)
