# Written by `make generate` from pgqueue/aio/received.py: change it there.
"""The synchronous face of a received message."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, overload

import tenacity

from pgqueue import transports
from pgqueue.errors import PGQueueError
from pgqueue.flows import Shared, Source, processing, traced
from pgqueue.flows.flow import source_of
from pgqueue.flows.locked import LockedMessage, require_received
from pgqueue.flows.settling import renew_lock, resolve, settle
from pgqueue.model.context import Outcome, ReceiveState
from pgqueue.model.encoding import UNCHANGED
from pgqueue.model.handler import Handler
from pgqueue.model.lock_lost import LockLost
from pgqueue.model.message import BodyT, BodyT_co, RecordedEffect
from pgqueue.model.policy import retry_policy
from pgqueue.statements import history, sessions
from pgqueue.statements import settling as verbs
from pgqueue.transports import drive

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pgqueue.transports.typed import (
        GivesConnection,
        GivesOtherConnection,
        GivesPsycopgConnection,
        GivesSession,
        PsycopgConnection,
        SQLAlchemyConnection,
        SQLAlchemySession,
        Transaction,
        TransactionSource,
    )


class ReceivedMessage(LockedMessage[BodyT_co]):
    """A message that was received under lock, and the methods that settle it.

    Every method proves the lock to the database. A lost lock raises :class:`~pgqueue.errors.LockLostError`; a call that
    is illegal in the state of the delivery raises :class:`~pgqueue.errors.InvalidStateError` or a subclass.
    ``transaction`` is a connection or a session: the call takes part in its transaction. Without ``transaction`` each
    call has its own transaction.
    """

    _asynchronous = False

    # this face only: a property can ask the database
    @property
    def state(self) -> ReceiveState:
        """The state of this delivery.

        Asks the database when a settlement was interrupted, or is part of a transaction of yours whose end is not
        reported to the library. If the database cannot be reached, this is the last known state.
        """
        if self.context.is_in_doubt:
            try:
                self.resolve()
            except PGQueueError:
                return self.context.state
        return self.context.state

    # end

    @cached_property
    def lock_lost(self) -> LockLost:
        """True once the delivery is given up or its lock is found to be lost. Long work should check it regularly.

        Work that is done afterwards can no longer be committed together with the message.
        ``lock_lost.wait(timeout)`` waits for that.
        """
        return self._observed(LockLost())

    def complete(self, *, result: Any = None, transaction: Transaction | None = None) -> None:
        """Completes the message: deletes it, because the delivery succeeded.

        ``result``, any JSON, is kept for those who ask for it (:meth:`Queue.wait_for`); the queue must have
        ``result_retention`` set.

        With ``transaction`` the deletion is part of your transaction: a commit makes both your work and the deletion
        permanent, a rollback undoes both, and the message is still locked by this delivery. Semantics of WCF's
        ``ReceiveContext.Complete``.
        """
        statement = verbs.complete(self.lock, result=result)
        drive(settle(self, Outcome.COMPLETED, statement, shared(transaction, self._source)))

    def abandon(
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
        drive(settle(self, Outcome.ABANDONED, statement, shared(transaction, self._source)))

    def dead_letter(
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
        drive(settle(self, Outcome.DEAD_LETTERED, statement, shared(transaction, self._source)))

    def postpone(self, delay: timedelta, *, body: Any = UNCHANGED, transaction: Transaction | None = None) -> None:
        """Gives the message back, to be delivered again after ``delay``; this delivery is not counted.

        Use it when the work has to wait for something else. ``body`` replaces the body of the message. Otherwise as
        :meth:`abandon`: the state of the delivery becomes abandoned.
        """
        statement = verbs.postpone(self.lock, delay=delay, body=body, body_type=self._body_type)
        drive(settle(self, Outcome.ABANDONED, statement, shared(transaction, self._source)))

    def defer(self, *, properties: Mapping[str, Any] | None = None, transaction: Transaction | None = None) -> None:
        """Defers the message: from now on only ``receive_deferred`` receives it, by its sequence number.

        Keep the number. ``properties`` are merged into its application properties. The delivery is not counted.
        """
        statement = verbs.defer(self.lock, properties=properties)
        drive(settle(self, Outcome.DEFERRED, statement, shared(transaction, self._source)))

    def record_effect(
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
        where = transports.where(transaction, self._source, asynchronous=False)
        statement = history.record_effect(*self._effect_key, effect, result=result, keep=keep)
        return drive(where.execute(statement))

    def recorded_effects(self) -> list[RecordedEffect]:
        """Returns the effects that committed transactions recorded for this message, oldest first."""
        return drive(self._source.execute(history.recorded_effects(*self._effect_key)))

    def get_session_state(self, *, transaction: Transaction | None = None) -> Any:
        """Returns the state of the message's session: any JSON, or bytes; None if it has none.

        With ``transaction`` this is the state as your transaction sees it.
        """
        where = transports.where(transaction, self._source, asynchronous=False)
        return drive(where.execute(sessions.get_session_state(self.session_lock)))

    def set_session_state(self, state: Any, *, transaction: Transaction | None = None) -> None:
        """Sets the state of the message's session: any JSON, or bytes, up to 256 KiB; None removes it.

        With ``transaction`` it is part of your transaction: set in the one that completes the message, it always agrees
        with the completion. A lost lock raises :class:`~pgqueue.errors.SessionLockLostError`.
        """
        where = transports.where(transaction, self._source, asynchronous=False)
        drive(where.execute(sessions.set_session_state(self.session_lock, state)))

    def renew_lock(self, *, lock_duration: timedelta | None = None, transaction: Transaction | None = None) -> datetime:
        """Renews the lock for ``lock_duration``, by default that of the queue, from now; returns when it expires.

        With ``transaction`` the lock is renewed if, and only if, your transaction commits. No one can take the message
        before it ends, and ``locked_until`` of this object stays as it was. While another transaction has the lock
        pinned, it is kept but not renewed.
        """
        return drive(renew_lock(self, lock_duration, shared(transaction, self._source)))

    def fault(self) -> None:
        """Puts the delivery in doubt, without I/O; its lock expires by itself. As WCF's ``ReceiveContext.Fault``."""
        self.context.fault()

    def resolve(self) -> ReceiveState:
        """Asks the database for the outcome of a settlement: committed, undone, or still open.

        Use it when a call was cancelled, the connection broke during COMMIT, or the outcome of your own transaction is
        unknown. If the database does not know the transaction, after a crash or a failover or because its id never
        arrived, and the message proves nothing, the delivery stays in doubt: FAULTED. Raises
        :class:`~pgqueue.errors.ConnectionLostError` while the database cannot be reached.
        """
        return drive(resolve(self))

    @overload
    def transaction(self, source: GivesPsycopgConnection) -> AbstractContextManager[PsycopgConnection]: ...

    @overload
    def transaction(self, source: GivesSession) -> AbstractContextManager[SQLAlchemySession]: ...

    @overload
    def transaction(self, source: GivesConnection) -> AbstractContextManager[SQLAlchemyConnection]: ...

    @overload
    def transaction(self, source: GivesOtherConnection) -> AbstractContextManager[Any]: ...

    @overload
    def transaction(self, source: None = None) -> AbstractContextManager[Any]: ...

    @contextmanager
    def transaction(self, source: TransactionSource | None = None) -> Iterator[Any]:
        """Begins a transaction for the block; at its end, completes the message and commits.

        The lock is pinned before the block starts. An exception rolls the transaction back and leaves the message
        received and locked.

        Raises:
            InvalidStateError: the message has such a transaction already.
            SettlementUndoneError: the block has settled the message in a savepoint that was rolled back.
            WrongTransactionError: the block has ended the transaction.

        ``source`` is a SQLAlchemy engine, connection, session or session maker, a pool of psycopg, or a connection of
        psycopg or psycopg2. The block gets its connection or session. By default ``source`` is the client's.

        Inside of the block ``commit()`` and ``rollback()`` raise :class:`~pgqueue.errors.TransactionRequiredError`.
        Those of psycopg2 raise an error of its own.
        """
        begun = drive(processing.enter(self, _begin(self, source)))
        try:
            yield begun.handle
        except BaseException as error:
            drive(processing.roll_back_delivery(self, begun, error))
            raise
        drive(processing.leave(self, begun))


@overload
def process(
    received: ReceivedMessage[BodyT],
    work: Callable[[ReceivedMessage[BodyT]], object],
    source: GivesPsycopgConnection | GivesOtherConnection | GivesSession | GivesConnection | None = None,
    *,
    retry: tenacity.BaseRetrying | None = None,
) -> Any: ...


@overload
def process(
    received: ReceivedMessage[BodyT],
    work: Callable[[ReceivedMessage[BodyT], PsycopgConnection], object],
    source: GivesPsycopgConnection,
    *,
    retry: tenacity.BaseRetrying | None = None,
) -> Any: ...


@overload
def process(
    received: ReceivedMessage[BodyT],
    work: Callable[[ReceivedMessage[BodyT], SQLAlchemySession], object],
    source: GivesSession,
    *,
    retry: tenacity.BaseRetrying | None = None,
) -> Any: ...


@overload
def process(
    received: ReceivedMessage[BodyT],
    work: Callable[[ReceivedMessage[BodyT], SQLAlchemyConnection], object],
    source: GivesConnection,
    *,
    retry: tenacity.BaseRetrying | None = None,
) -> Any: ...


@overload
def process(
    received: ReceivedMessage[BodyT],
    work: Callable[[ReceivedMessage[BodyT], Any], object],
    source: GivesOtherConnection | None = None,
    *,
    retry: tenacity.BaseRetrying | None = None,
) -> Any: ...


def process(
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

    Raises:
        SettlementUndoneError: the work has settled the message in a transaction that it did not commit.
        InvalidArgumentError: the work takes other arguments, is a coroutine function (use :func:`pgqueue.aio.process`)
            or a generator function, or it returned an awaitable or a generator; or the message was received with
            :mod:`pgqueue.aio`. The message stays received.
    """
    require_received(received, asynchronous=False)
    handler = Handler.of(work, "the work", asynchronous=False)
    handler.check_takes(type(received))
    return drive(traced.process(received, handler, _begin_for(handler, received, source), retry_policy(retry)))


def _begin_for(handler: Handler, received: ReceivedMessage, source: object) -> processing.Begin | None:
    """How to begin the transactions of the work; None if it takes none, and no source of them is given."""
    has_one = handler.takes_transaction or source is not None or source_of(received).is_one_connection
    return _begin(received, source) if has_one else None


def _begin(received: ReceivedMessage, source: object) -> processing.Begin:
    if source is None:
        return source_of(received).begin
    return partial(transports.begin, source, source_of(received), asynchronous=False)


def shared(transaction: Transaction | None, source: Source) -> Shared | None:
    """The caller's transaction; None if the call has its own."""
    return None if transaction is None else transports.shared(transaction, source, asynchronous=False)
