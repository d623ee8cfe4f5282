"""A locked message: what both faces share, and what the flows work on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, TypeVar
from uuid import UUID

from pgqueue.errors import InvalidArgumentError, InvalidStateError
from pgqueue.flows.flow import Source
from pgqueue.model.arguments import shown
from pgqueue.model.body_type import BodyType
from pgqueue.model.context import ReceiveContext, ReceiveState
from pgqueue.model.json_text import lazy_fields
from pgqueue.model.lock_lost import LockLostFlag
from pgqueue.model.message import BodyT_co, Lock, PeekedMessage, from_row
from pgqueue.model.names import dead_letters_of
from pgqueue.model.row import FIELDS, Row
from pgqueue.statements.sessions import SessionLock

LockedT = TypeVar("LockedT", bound="LockedMessage")
LostT = TypeVar("LostT", bound=LockLostFlag)


@lazy_fields(*FIELDS)
@dataclass(eq=False, repr=False, kw_only=True)
class LockedMessage(PeekedMessage[BodyT_co]):
    """A message that this receiver has locked, and the state machine of its delivery."""

    #: Whether its verbs and callbacks are awaited.
    _asynchronous: ClassVar[bool] = False

    lock_token: UUID
    context: ReceiveContext = field(default_factory=ReceiveContext, repr=False)
    _source: Source = field(repr=False)

    @property
    def lock(self) -> Lock:
        """The proof to the database that this delivery is ours."""
        return Lock.of_row(self.queue, self._row)

    @property
    def session_lock(self) -> SessionLock:
        """The proof to the database that the session of the message is ours.

        Raises:
            InvalidStateError: the message belongs to no session.
        """
        if self.session_id is None:
            raise InvalidStateError(f"message {self.sequence_number} of {self.queue} belongs to no session")
        return SessionLock(self.queue, self.session_id, self.lock.lock_token)

    def _observed(self, lock_lost: LostT) -> LostT:
        """Set it once the delivery is given up or its lock is found to be lost."""
        self.context.on_fault(lock_lost.set)
        self.context.on_abandon(lock_lost.set)
        if self.context.state in (ReceiveState.FAULTED, ReceiveState.ABANDONED):
            lock_lost.set()
        return lock_lost

    @property
    def _effect_key(self) -> tuple[str, str]:
        """The key of recorded effects: the queue, and the message id, or the sequence number if there is no id."""
        return dead_letters_of(self.queue), self.message_id or f"#{self.sequence_number}"


def locked(kind: type[LockedT], queue: str, row: Row, source: Source, body_type: BodyType | None = None) -> LockedT:
    """A message of a row that was locked by way of a source."""
    message = from_row(kind, queue, row, body_type)
    message.context = ReceiveContext(asynchronous=kind._asynchronous)  # noqa: SLF001 - a function beside its class
    message._source = source  # noqa: SLF001 - the same
    return message


def require_received(received: object, asynchronous: bool) -> None:
    """Refuse what was not received in this face.

    Raises:
        InvalidArgumentError: it was not.
    """
    if not isinstance(received, LockedMessage):
        raise InvalidArgumentError(f"process() takes a message that was received under lock, not {shown(received)}")
    if received._asynchronous is not asynchronous:  # noqa: SLF001 - which face it belongs to
        face = "pgqueue" if asynchronous else "pgqueue.aio"
        raise InvalidArgumentError(f"the message was received with {face}: process it with {face}.process()")
