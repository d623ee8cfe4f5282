"""A message under lock, with its verbs as flows; the two faces run them."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, ClassVar, TypeVar
from uuid import UUID

from pgqueue.errors import InvalidStateError, LockLostError
from pgqueue.flows import processing, settling
from pgqueue.flows.flow import Flow, Shared, Source
from pgqueue.model.context import Outcome, ReceiveContext, ReceiveState
from pgqueue.model.message import Lock, PeekedMessage
from pgqueue.model.names import dead_letters_of
from pgqueue.statements import settling as verbs
from pgqueue.statements.receiving import MessageRow

SelfT = TypeVar("SelfT", bound="LockedMessage")

STILL_LOCKED = (ReceiveState.RECEIVED, ReceiveState.COMPLETING)


@dataclass(eq=False, repr=False, kw_only=True)
class LockedMessage(PeekedMessage):
    """A message that this receiver holds under lock, and the state machine of its delivery."""

    #: Whether its verbs are awaited, and so are callbacks.
    _asynchronous: ClassVar[bool] = False

    lock_token: UUID
    context: ReceiveContext = field(default_factory=ReceiveContext, repr=False)
    _own: Source = field(repr=False)
    _transaction: Shared | None = field(default=None, repr=False)

    @classmethod
    def _from_row(cls: type[SelfT], row: MessageRow, own: Source) -> SelfT:
        assert row.lock_token is not None, "a message that was received is locked"
        context = ReceiveContext(asynchronous=cls._asynchronous)
        return cls(**row.fields, lock_token=row.lock_token, context=context, _own=own)

    @property
    def lock(self) -> Lock:
        """What proves to the database that this delivery is ours."""
        return Lock(self.queue, self.sequence_number, self.lock_token)

    @cached_property
    def lock_lost(self) -> threading.Event:
        """Set once the delivery is given up or its lock found lost: work that takes long looks at it from time to time.

        Nothing that is done afterwards can be committed together with the message.
        """
        event = threading.Event()
        self.context.on_fault(event.set)
        self.context.on_abandon(event.set)
        if self.context.state in (ReceiveState.FAULTED, ReceiveState.ABANDONED):
            event.set()
        return event

    @cached_property
    def _delivery(self) -> processing.Delivery:
        return processing.Delivery(self.lock, self.context, self.delivery_count, self._own, self._resolution)

    def _completion(self, transaction: Shared | None) -> Flow[None]:
        yield from self._take_up(transaction)
        yield from settling.settle(self.context, verbs.complete(self.lock), Outcome.COMPLETED, self._own, transaction)

    def _dead_lettering(self, reason: str, description: str | None, transaction: Shared | None) -> Flow[None]:
        yield from self._take_up(transaction)
        statement = verbs.dead_letter(self.lock, reason=reason, description=description)
        yield from settling.settle(self.context, statement, Outcome.DEAD_LETTERED, self._own, transaction)

    def _abandonment(self, delay: timedelta | None, properties: Any, transaction: Shared | None) -> Flow[None]:
        yield from self._take_up(transaction)
        statement = verbs.abandon(self.lock, delay=delay, properties=properties)
        yield from settling.abandon(self.context, statement, self._own, transaction)

    def _postponement(self, delay: timedelta, body: tuple[Any, ...], transaction: Shared | None) -> Flow[None]:
        yield from self._take_up(transaction)
        statement = verbs.postpone(self.lock, delay=delay, body=body)
        yield from settling.abandon(self.context, statement, self._own, transaction)

    def _deferral(self, properties: Any, transaction: Shared | None) -> Flow[None]:
        yield from self._take_up(transaction)
        statement = verbs.defer(self.lock, properties=properties)
        yield from settling.settle(self.context, statement, Outcome.DEFERRED, self._own, transaction)

    def _renewal(self, lock_duration: timedelta | None) -> Flow[datetime]:
        yield from self._settled_by_now()
        self.context.require("renew_lock()", *STILL_LOCKED)
        try:
            self.locked_until = yield from self._own.execute(verbs.renew_lock(self.lock, lock_duration=lock_duration))
        except LockLostError:
            self.context.lose()
            raise
        return self.locked_until

    def _take_up(self, transaction: Shared | None) -> Flow[None]:
        """Before a settlement in a transaction: what became of the one before is known, and this one would not wait."""
        yield from self._settled_by_now()
        self._refuse_to_wait_for_ourselves(transaction)
        self._transaction = transaction

    def _resolution(self) -> Flow[ReceiveState]:
        return settling.resolve(self._question, self._own, self._transaction)

    @property
    def _question(self) -> settling.Question:
        return settling.Question(self.context, self.lock, self.locked_until)

    def _settled_by_now(self) -> Flow[None]:
        """Learns what became of a settlement, if nobody told us."""
        if self._is_unresolved:
            yield from self._resolution()

    def _refuse_to_wait_for_ourselves(self, transaction: Shared | None) -> None:
        """In the block of ``transaction()`` the message is held by the transaction of that block."""
        if transaction is None and self._is_pinned:
            raise InvalidStateError(
                "the message is held by the transaction of this block: settle it there, with transaction=…, or after it"
            )

    @property
    def _effect_key(self) -> tuple[str, str]:
        """What effects are recorded under: the queue, and the message id or, without one, the number that stays."""
        return dead_letters_of(self.queue), self.message_id or f"#{self.sequence_number}"

    @property
    def _is_pinned(self) -> bool:
        """Whether a transaction that works on the message is open; asked of each, while few ever have one."""
        delivery: processing.Delivery | None = self.__dict__.get("_delivery")
        return delivery is not None and delivery.begun is not None

    @property
    def _is_unresolved(self) -> bool:
        """Whether a settlement was interrupted, or is part of a transaction whose end nobody has told us."""
        return self.context.is_in_doubt


def with_message(work: Callable[..., Any], message: LockedMessage) -> Callable[[Any], Any]:
    """Work that takes two arguments gets the message and the transaction; any other, the transaction."""
    try:
        inspect.signature(work).bind(message, None)
    except (TypeError, ValueError):
        return work
    return lambda transaction: work(message, transaction)
