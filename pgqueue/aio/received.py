"""The asynchronous face of a received message."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, overload

import tenacity

from pgqueue import transports
from pgqueue.aio.lock_lost import LockLost
from pgqueue.flows import Shared, Source, processing, traced
from pgqueue.flows.flow import source_of
from pgqueue.flows.locked import LockedMessage, require_received
from pgqueue.flows.settling import renew_lock, resolve, settle
from pgqueue.model.context import Outcome, ReceiveState
from pgqueue.model.encoding import UNCHANGED
from pgqueue.model.handler import Handler
from pgqueue.model.message import BodyT, BodyT_co, RecordedEffect
from pgqueue.model.policy import retry_policy
from pgqueue.statements import history, sessions
from pgqueue.statements import settling as verbs
from pgqueue.transports import adrive

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from pgqueue.transports.typed import (
        AsyncPsycopgConnection,
        AsyncSQLAlchemyConnection,
        AsyncSQLAlchemySession,
        GivesAsyncConnection,
        GivesAsyncOtherConnection,
        GivesAsyncPsycopgConnection,
        GivesAsyncSession,
    )
    from pgqueue.transports.typed import AsyncTransaction as Transaction
    from pgqueue.transports.typed import AsyncTransactionSource as TransactionSource


class ReceivedMessage(LockedMessage[BodyT_co]):
    """A message that was received under lock, and the methods that settle it.

    Every method proves the lock to the database. A lost lock raises :class:`~pgqueue.errors.LockLostError`; a call that
    is illegal in the state of the delivery raises :class:`~pgqueue.errors.InvalidStateError` or a subclass.
    ``transaction`` is a connection or a session: the call takes part in its transaction. Without ``transaction`` each
    call has its own transaction.
    """

    _asynchronous = True

    # this face only: a property cannot wait for the database
    @property
    def state(self) -> ReceiveState:
        """The last known state of this delivery.

        When a settlement was interrupted, or is part of your transaction on a connection of a driver, the library
        does not learn the outcome by itself: ask with :meth:`resolve`.
        """
        return self.context.state

    # end

    @cached_property
    def lock_lost(self) -> LockLost:
        """True once the delivery is given up or its lock is found to be lost. Long work should check it regularly.

        Work that is done afterwards can no longer be committed together with the message.
        ``await lock_lost`` waits for that.
        """
        return self._observed(LockLost())

    async def complete(self, *, result: Any = None, transaction: Transaction | None = None) -> None:
        """Completes the message: deletes it, because the delivery succeeded.

        ``result``, any JSON, is kept for those who ask for it (:meth:`Queue.wait_for`); the queue must have
        ``result_retention`` set.

        With ``transaction`` the deletion is part of your transaction: a commit makes both your work and the deletion
        permanent, a rollback undoes both, and the message is still locked by this delivery. Semantics of WCF's
        ``ReceiveContext.Complete``.
        """
        statement = verbs.complete(self.lock, result=result)
        await adrive(settle(self, Outcome.COMPLETED, statement, shared(transaction, self._source)))

    async def abandon(
        self,
        *,
        delay: timedelta | None = None,
        properties: Mapping[str, Any] | None = None,
        error: BaseException | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        """Abandons the message: it is delivered again, at once or after ``delay``, and its delivery count rises.

        ``properties`` are merged into its application properties. ``error`` is kept with the message, as its
        ``last_error``. Abandoning twice has no further effect.
        """
        statement = verbs.abandon(self.lock, delay=delay, properties=properties, error=error)
        await adrive(settle(self, Outcome.ABANDONED, statement, shared(transaction, self._source)))

    async def dead_letter(
        self,
        reason: str,
        description: str | None = None,
        *,
        properties: Mapping[str, Any] | None = None,
        error: BaseException | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        """Moves the message to the dead letters of its queue, with a reason and a description.

        ``properties`` are merged into its application properties. ``error`` is kept with the message, as its
        ``last_error``, and is the description if none is given.
        """
        statement = verbs.dead_letter(
            self.lock, reason=reason, description=description, properties=properties, error=error
        )
        await adrive(settle(self, Outcome.DEAD_LETTERED, statement, shared(transaction, self._source)))

    async def postpone(
        self, delay: timedelta, *, body: Any = UNCHANGED, transaction: Transaction | None = None
    ) -> None:
        """Gives the message back, to be delivered again after ``delay``; this delivery is not counted.

        Use it when the work has to wait for something else. ``body`` replaces the body of the message. Otherwise as
        :meth:`abandon`: the state of the delivery becomes abandoned.
        """
        statement = verbs.postpone(self.lock, delay=delay, body=body, body_type=self._body_type)
        await adrive(settle(self, Outcome.ABANDONED, statement, shared(transaction, self._source)))

    async def defer(
        self, *, properties: Mapping[str, Any] | None = None, transaction: Transaction | None = None
    ) -> None:
        """Defers the message: from now on only ``receive_deferred`` receives it, by its sequence number.

        Keep the number. ``properties`` are merged into its application properties. The delivery is not counted.
        """
        statement = verbs.defer(self.lock, properties=properties)
        await adrive(settle(self, Outcome.DEFERRED, statement, shared(transaction, self._source)))

    async def record_effect(
        self,
        effect: str,
        *,
        result: Any = None,
        keep: timedelta = timedelta(days=7),
        transaction: Transaction | None = None,
    ) -> bool:
        """Records that an effect was done for this message outside of the database, with its ``result``, any JSON.

        The record is kept for ``keep``, under the message id, or under the sequence number of a message without one.
        Record the effect in the transaction that completes the message; see ``docs/duplicates.md``. Returns False when
        it was already recorded.
        """
        where = transports.where(transaction, self._source, asynchronous=True)
        statement = history.record_effect(*self._effect_key, effect, result=result, keep=keep)
        return await adrive(where.execute(statement))

    async def recorded_effects(self) -> list[RecordedEffect]:
        """Returns the effects that committed transactions recorded for this message, oldest first."""
        return await adrive(self._source.execute(history.recorded_effects(*self._effect_key)))

    async def get_session_state(self, *, transaction: Transaction | None = None) -> Any:
        """Returns the state of the message's session: any JSON, or bytes; None if it has none.

        With ``transaction`` this is the state as your transaction sees it.
        """
        where = transports.where(transaction, self._source, asynchronous=True)
        return await adrive(where.execute(sessions.get_session_state(self.session_lock)))

    async def set_session_state(self, state: Any, *, transaction: Transaction | None = None) -> None:
        """Sets the state of the message's session: any JSON, or bytes, up to 256 KiB; None removes it.

        With ``transaction`` it is part of your transaction: set in the one that completes the message, it always agrees
        with the completion. A lost lock raises :class:`~pgqueue.errors.SessionLockLostError`.
        """
        where = transports.where(transaction, self._source, asynchronous=True)
        await adrive(where.execute(sessions.set_session_state(self.session_lock, state)))

    async def renew_lock(
        self, *, lock_duration: timedelta | None = None, transaction: Transaction | None = None
    ) -> datetime:
        """Renews the lock for ``lock_duration``, by default that of the queue, from now; returns when it expires.

        With ``transaction`` the lock is renewed if, and only if, your transaction commits. No one can take the message
        before it ends, and ``locked_until`` of this object stays as it was. While another transaction has the lock
        pinned, it is kept but not renewed.
        """
        return await adrive(renew_lock(self, lock_duration, shared(transaction, self._source)))

    def fault(self) -> None:
        """Puts the delivery in doubt, without I/O; its lock expires by itself. As WCF's ``ReceiveContext.Fault``."""
        self.context.fault()

    async def resolve(self) -> ReceiveState:
        """Asks the database for the outcome of a settlement: committed, undone, or still open.

        Use it when a call was cancelled, the connection broke during COMMIT, or the outcome of your own transaction is
        unknown. If the database does not know the transaction, after a crash or a failover or because its id never
        arrived, and the message proves nothing, the delivery stays in doubt: FAULTED. Raises
        :class:`~pgqueue.errors.ConnectionLostError` while the database cannot be reached.
        """
        return await adrive(resolve(self))

    @overload
    def transaction(
        self, source: GivesAsyncPsycopgConnection
    ) -> AbstractAsyncContextManager[AsyncPsycopgConnection]: ...

    @overload
    def transaction(self, source: GivesAsyncSession) -> AbstractAsyncContextManager[AsyncSQLAlchemySession]: ...

    @overload
    def transaction(self, source: GivesAsyncConnection) -> AbstractAsyncContextManager[AsyncSQLAlchemyConnection]: ...

    @overload
    def transaction(self, source: GivesAsyncOtherConnection) -> AbstractAsyncContextManager[Any]: ...

    @overload
    def transaction(self, source: None = None) -> AbstractAsyncContextManager[Any]: ...

    @asynccontextmanager
    async def transaction(self, source: TransactionSource | None = None) -> AsyncIterator[Any]:
        """Begins a transaction for the block; at its end, completes the message and commits.

        The lock is pinned before the block starts. An exception rolls the transaction back and leaves the message
        received and locked.

        Raises:
            InvalidStateError: the message has such a transaction already.
            SettlementUndoneError: the block has settled the message in a savepoint that was rolled back.
            WrongTransactionError: the block has ended the transaction.

        ``source`` is a SQLAlchemy engine, connection, session or session maker, or a connection or a pool of psycopg or
        asyncpg. The block gets its connection or session. By default ``source`` is the client's.

        Inside of the block ``commit()`` and ``rollback()`` raise :class:`~pgqueue.errors.TransactionRequiredError`.
        asyncpg has none, and its ``transaction()`` is a savepoint there.
        """
        begun = await adrive(processing.enter(self, _begin(self, source)))
        try:
            yield begun.handle
        except BaseException as error:
            await adrive(processing.roll_back_delivery(self, begun, error))
            raise
        await adrive(processing.leave(self, begun))


@overload
async def process(
    received: ReceivedMessage[BodyT],
    work: Callable[[ReceivedMessage[BodyT]], object],
    source: GivesAsyncPsycopgConnection
    | GivesAsyncOtherConnection
    | GivesAsyncSession
    | GivesAsyncConnection
    | None = None,
    *,
    retry: tenacity.BaseRetrying | None = None,
) -> Any: ...


@overload
async def process(
    received: ReceivedMessage[BodyT],
    work: Callable[[ReceivedMessage[BodyT], AsyncPsycopgConnection], object],
    source: GivesAsyncPsycopgConnection,
    *,
    retry: tenacity.BaseRetrying | None = None,
) -> Any: ...


@overload
async def process(
    received: ReceivedMessage[BodyT],
    work: Callable[[ReceivedMessage[BodyT], AsyncSQLAlchemySession], object],
    source: GivesAsyncSession,
    *,
    retry: tenacity.BaseRetrying | None = None,
) -> Any: ...


@overload
async def process(
    received: ReceivedMessage[BodyT],
    work: Callable[[ReceivedMessage[BodyT], AsyncSQLAlchemyConnection], object],
    source: GivesAsyncConnection,
    *,
    retry: tenacity.BaseRetrying | None = None,
) -> Any: ...


@overload
async def process(
    received: ReceivedMessage[BodyT],
    work: Callable[[ReceivedMessage[BodyT], Any], object],
    source: GivesAsyncOtherConnection | None = None,
    *,
    retry: tenacity.BaseRetrying | None = None,
) -> Any: ...


async def process(
    received: ReceivedMessage[Any],
    work: Callable[..., Any],
    source: object = None,
    *,
    retry: tenacity.BaseRetrying | None = None,
) -> Any:
    """Runs ``work(message, tx)`` in a transaction that completes the message; returns what the work returned.

    After a serialization failure, a deadlock or a lost connection, the transaction, or the work where it takes
    none, is tried again on the same lock, as often as ``retry`` allows; the lock is renewed between the attempts.

    ``work(message)`` runs without a transaction, as a worker's handler does, and the message is completed afterwards,
    unless the work has settled it. With a ``source``, a session for example, it runs in a transaction of that.

    If the work raises
    :class:`~pgqueue.errors.DeadLetter`, the message is dead-lettered. After any other error the message is abandoned
    with backoff, and the error is raised.

    The work is a coroutine function, or a plain function that does not block the event loop for long. If it
    returns an awaitable, that is awaited.

    Raises:
        SettlementUndoneError: the work has settled the message in a transaction that it did not commit.
        InvalidArgumentError: the work takes other arguments, is a generator function, or returned a generator; or the
            message was received with :mod:`pgqueue`. The message stays received.
    """
    require_received(received, asynchronous=True)
    handler = Handler.of(work, "the work", asynchronous=True)
    handler.check_takes(type(received))
    return await adrive(traced.process(received, handler, _begin_for(handler, received, source), retry_policy(retry)))


def _begin_for(handler: Handler, received: ReceivedMessage, source: object) -> processing.Begin | None:
    """How to begin the transactions of the work; None if it takes none, and no source of them is given."""
    has_one = handler.takes_transaction or source is not None or source_of(received).is_one_connection
    return _begin(received, source) if has_one else None


def _begin(received: ReceivedMessage, source: object) -> processing.Begin:
    if source is None:
        return source_of(received).begin
    return partial(transports.begin, source, source_of(received), asynchronous=True)


def shared(transaction: Transaction | None, source: Source) -> Shared | None:
    """The caller's transaction; None if the call has its own."""
    return None if transaction is None else transports.shared(transaction, source, asynchronous=True)
