"""A message under lock: what the two faces have in common, and what the flows work on."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self
from uuid import UUID

from pgqueue.flows.flow import Source
from pgqueue.model.context import ReceiveContext, ReceiveState
from pgqueue.model.message import Lock, PeekedMessage, row_fields
from pgqueue.model.names import dead_letters_of
from pgqueue.model.row import Row


@row_fields
@dataclass(eq=False, repr=False, kw_only=True)
class LockedMessage(PeekedMessage):
    """A message that this receiver holds under lock, and the state machine of its delivery."""

    #: Whether its verbs are awaited, and so are callbacks.
    _asynchronous: ClassVar[bool] = False

    lock_token: UUID
    context: ReceiveContext = field(default_factory=ReceiveContext, repr=False)
    _source: Source = field(repr=False)

    @classmethod
    def _locked(cls, queue: str, row: Row, source: Source) -> Self:
        message = cls._from_row(queue, row)
        message.context, message._source = ReceiveContext(asynchronous=cls._asynchronous), source
        return message

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

    @property
    def _effect_key(self) -> tuple[str, str]:
        """What effects are recorded under: the queue, and the message id or, without one, the number that stays."""
        return dead_letters_of(self.queue), self.message_id or f"#{self.sequence_number}"


def with_message(work: Callable[..., Any], message: LockedMessage) -> Callable[[Any], Any]:
    """Work that takes two arguments gets the message and the transaction; any other, the transaction."""
    try:
        inspect.signature(work).bind(message, None)
    except (TypeError, ValueError):
        return work
    return lambda transaction: work(message, transaction)
