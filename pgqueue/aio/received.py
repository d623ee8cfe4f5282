"""The asynchronous face of a message under lock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import tenacity

from pgqueue import transports
from pgqueue.flows import Shared, processing, traced
from pgqueue.flows.locked import LockedMessage
from pgqueue.flows.settling import renew_lock, resolve, settle
from pgqueue.model.calls import must_finish
from pgqueue.model.context import Outcome, ReceiveState
from pgqueue.model.encoding import UNCHANGED
from pgqueue.model.message import RecordedEffect
from pgqueue.model.policy import retry_policy
from pgqueue.statements import history
from pgqueue.statements import settling as verbs
from pgqueue.transports import adrive


class ReceivedMessage(LockedMessage):
    """A message that was received under lock, and the ways to settle it.

    Every verb proves the lock to the database. A lock that was lost raises :class:`~pgqueue.errors.LockLostError`; a
    verb that is illegal in the delivery's state raises :class:`~pgqueue.errors.InvalidStateError` or a subclass.
    ``transaction`` is a connection or a session, in whose transaction the verb takes part; without it the verb has a
    transaction of its own.
    """

    _asynchronous = True

    @property
    def state(self) -> ReceiveState:
        """The state of this delivery, as far as is known.

        When a settlement was interrupted, or is part of a transaction of yours on a plain psycopg connection, the
        outcome is not reported to the library: ask with :meth:`resolve`.
        """
        return self.context.state

    async def complete(self, *, transaction: object = None) -> None:
        """Deletes the message: the delivery is done.

        With ``transaction`` the deletion is part of your transaction: the commit finishes both, an abort undoes both,
        and the message is still locked by us. As WCF's ``ReceiveContext.Complete``.
        """
        await adrive(settle(self, Outcome.COMPLETED, verbs.complete(self.lock), _shared(transaction)))

    async def abandon(
        self,
        *,
        delay: timedelta | None = None,
        properties: Mapping[str, Any] | None = None,
        transaction: object = None,
    ) -> None:
        """Gives the message back, to be delivered again at once or after ``delay``; that delivery counts one more.

        ``properties`` are merged into its application properties. Abandoning twice has no further effect.
        """
        statement = verbs.abandon(self.lock, delay=delay, properties=properties)
        await adrive(settle(self, Outcome.ABANDONED, statement, _shared(transaction)))

    async def dead_letter(self, reason: str, description: str | None = None, *, transaction: object = None) -> None:
        """Moves the message to the dead letters of its queue, with a reason and a description."""
        statement = verbs.dead_letter(self.lock, reason=reason, description=description)
        await adrive(settle(self, Outcome.DEAD_LETTERED, statement, _shared(transaction)))

    async def postpone(self, delay: timedelta, *, body: Any = UNCHANGED, transaction: object = None) -> None:
        """Gives the message back, to be delivered again after ``delay``; the delivery is not counted.

        For work that waits for something else. With a ``body`` the message has that from now on. Otherwise as
        :meth:`abandon`: the delivery is abandoned.
        """
        statement = verbs.postpone(self.lock, delay=delay, body=body)
        await adrive(settle(self, Outcome.ABANDONED, statement, _shared(transaction)))

    async def defer(self, *, properties: Mapping[str, Any] | None = None, transaction: object = None) -> None:
        """Sets the message aside: it is received again by its sequence number only, with ``receive_deferred``.

        Keep the number. ``properties`` are merged into its application properties. Not counted as a delivery.
        """
        statement = verbs.defer(self.lock, properties=properties)
        await adrive(settle(self, Outcome.DEFERRED, statement, _shared(transaction)))

    async def record_effect(
        self,
        effect: str,
        *,
        result: Any = None,
        keep: timedelta = timedelta(days=7),
        transaction: object = None,
    ) -> bool:
        """Records that something was done for this message outside of the database, and its ``result``, any JSON.

        By its message id, or without one by its number, for as long as ``keep``. Do it in the transaction that
        completes the message; see ``docs/duplicates.md``. False when it was recorded before.
        """
        where = _shared(transaction) or self._source
        statement = history.record_effect(*self._effect_key, effect, result=result, keep=keep)
        return await adrive(where.execute(statement))

    async def recorded_effects(self) -> list[RecordedEffect]:
        """What was recorded for this message by transactions that have committed, the first first."""
        return await adrive(self._source.execute(history.recorded_effects(*self._effect_key)))

    async def renew_lock(self, *, lock_duration: timedelta | None = None) -> datetime:
        """Renews the lock: it lasts the queue's lock duration, or this one, from now. Returns until when."""
        return await adrive(renew_lock(self, lock_duration))

    def fault(self) -> None:
        """Puts the delivery in doubt, without I/O: its lock runs out by itself. As WCF's ``ReceiveContext.Fault``."""
        self.context.fault()

    async def resolve(self) -> ReceiveState:
        """Asks the database for the outcome of a settlement: committed, undone, or still open.

        Use it when a call was cancelled, the connection broke during COMMIT, or the outcome of your own transaction is
        not known. If the database does not know the transaction and the lock has run out since, the delivery stays in
        doubt: FAULTED. Raises :class:`~pgqueue.errors.ConnectionLostError` while the database cannot be asked.
        """
        return await adrive(resolve(self))

    @asynccontextmanager
    async def transaction(self, source: object = None) -> AsyncIterator[Any]:
        """Begins a transaction to work in; at its end the message is completed and everything is committed.

        The lock is pinned before the block starts. An exception rolls back and leaves the message received and locked.

        ``source`` is a psycopg connection or pool, or a SQLAlchemy engine, connection, session or session maker; the
        block gets its connection or session. Without it the client's own source is used.
        """
        begun = await adrive(processing.enter(self, _begin(self, source)))
        try:
            yield begun.handle
        except BaseException as error:
            await adrive(processing.roll_back_delivery(self, begun, error))
            raise
        await adrive(processing.leave(self, begun))


async def process(
    received: ReceivedMessage,
    work: Callable[..., Any],
    source: object = None,
    *,
    retry: tenacity.BaseRetrying | None = None,
) -> Any:
    """Runs ``work(message, tx)``, or ``work(tx)``, in a transaction that completes the message; returns its result.

    On a serialization failure, a deadlock or a lost connection the transaction is begun again on the same lock, which
    is renewed between the tries, as often as ``retry`` allows. :class:`~pgqueue.errors.DeadLetter` raised by the work
    dead-letters the message. After any other error the message is abandoned with backoff, and the error raised.

    The work is a coroutine function, or a plain one that blocks nobody for long; what it returns is awaited if it can
    be.

    Raises:
        InvalidArgumentError: the work is a generator function, or has returned a generator. The message stays received.
    """
    must_finish(work, "the work", asynchronous=True)
    return await adrive(traced.process(received, work, _begin(received, source), retry_policy(retry)))


def _begin(received: ReceivedMessage, source: object) -> processing.Begin:
    if source is None:
        return received._source.begin
    return partial(transports.begin, source, asynchronous=True)


def _shared(transaction: object) -> Shared | None:
    return None if transaction is None else transports.shared(transaction, asynchronous=True)
