# Written by `make generate` from pgqueue/aio/queue.py: change it there.
"""The synchronous face of a queue: signatures and docstrings; each method is one call to the database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, overload

import tenacity

from pgqueue import transports
from pgqueue.batch import Batch
from pgqueue.flows import (
    Executor,
    Shared,
    Source,
    batches,
    dead_letters,
    fan_in,
    queues,
    receiving,
    results,
    selecting,
    sessions,
    traced,
    validating,
)
from pgqueue.flows.arrivals import arrivals
from pgqueue.flows.locked import locked
from pgqueue.flows.sessions import accepted
from pgqueue.model import context
from pgqueue.model.arguments import count, instance
from pgqueue.model.body_type import BodyType
from pgqueue.model.encoding import scheduled
from pgqueue.model.holder import this_process
from pgqueue.model.message import (
    BodyT,
    FoundMessage,
    Message,
    OnConflict,
    PeekedMessage,
    SequenceNumber,
    SettledMessage,
    from_row,
)
from pgqueue.model.names import dead_letter_queue, dead_letters_of
from pgqueue.model.outcome import Outcome
from pgqueue.model.policy import retry_policy
from pgqueue.model.row import Row
from pgqueue.model.selection import Selection
from pgqueue.model.settings import ReceiveMode, SessionProperties, SettlementResult, SubQueue
from pgqueue.received import ReceivedMessage, shared
from pgqueue.receiver import Receiver
from pgqueue.sender import Sender
from pgqueue.session import Session
from pgqueue.statements import history as remembering
from pgqueue.statements import receiving as receiving_verbs
from pgqueue.statements import selecting as selecting_verbs
from pgqueue.statements import sending, settling
from pgqueue.statements import sessions as session_verbs
from pgqueue.transports import drive

if TYPE_CHECKING:
    from pgqueue.transports.typed import Transaction


class Queue(Generic[BodyT]):
    """A queue, identified by its name. It is cheap to make, and safe to use from several threads.

    Made by :meth:`pgqueue.QueueClient.queue`. The queue need not exist before the first call. ``transaction`` is a
    psycopg Connection, a connection of psycopg2, or a SQLAlchemy Session or Connection: the call takes
    part in its transaction. Without ``transaction`` each call has its own transaction. Every call raises
    :class:`~pgqueue.errors.QueueNotFoundError` for an unknown queue, and :class:`~pgqueue.errors.ConnectionLostError`
    when the database cannot be reached.

    A queue is generic in the type of its bodies, as messages are. One that was made with a ``body_type`` has bodies of
    that type only: a send refuses others, and a receive dead-letters them, as ``InvalidBody``, instead of handing them
    out. Where a message that does not fit is met without a lock, asking for its ``body`` raises
    :class:`~pgqueue.errors.MessageNotReadableError`.
    """

    def __init__(self, name: str, source: Source, body_type: BodyType | None = None) -> None:
        self.name = name
        self._source = source
        self._body_type = body_type
        self._turns = receiving.Turns(name, source)

    def __repr__(self) -> str:
        return f"Queue({self.name!r})"

    @property
    def dead_letters(self) -> DeadLetters[BodyT]:
        """The dead letters of this queue, with their reasons: a queue of their own that cannot be sent to."""
        return DeadLetters(self.name, self._source, self._body_type)

    def send(
        self,
        message: Message[BodyT],
        *,
        on_conflict: OnConflict = "ignore",
        batch: Batch | None = None,
        transaction: Transaction | None = None,
    ) -> SequenceNumber:
        """Stores a message and returns its sequence number; numbers increase, and may have gaps.

        When the call returns, the message is stored, or part of your transaction. A duplicate is not stored again: the
        call returns the number of the message that was sent first, with ``is_duplicate`` set.

        ``on_conflict`` applies if another message has the ``unique_key`` of this one. ``"ignore"`` stores nothing, and
        returns the number of the other with ``is_duplicate`` set; ``"replace"`` stores this message in place of the
        other, under its number, with the due time of this one; ``"raise"`` raises. The other message is not received
        before your transaction has ended.

        With ``batch`` the message becomes a member of that batch, unless it is a duplicate.

        Raises:
            InvalidArgumentError: it is no message, or a field has the wrong type or is out of its bounds.
            BatchClosedError: the batch was closed.
            MessageNotSerializableError: a field cannot be stored; the error names it.
            MessageSizeExceededError: the message is larger than the queue allows.
            QueueFullError: the queue has reached its ``max_queue_length``.
            QueueDisabledError: the status of the queue forbids sending.
            DuplicateMessageError: another message has its unique key, and ``on_conflict`` is ``"raise"``.
        """
        where: Executor = self._where(transaction)
        if batch is not None:
            where = fan_in.Members(where, self.name, batch)
        return drive(traced.send(self.name, message, where, self._body_type, on_conflict, self._source.interceptors))

    def send_batch(
        self,
        messages: Iterable[Message[BodyT]],
        *,
        on_conflict: OnConflict = "ignore",
        batch: Batch | None = None,
        transaction: Transaction | None = None,
    ) -> list[SequenceNumber]:
        """Stores many messages in one round trip, all or none; returns their sequence numbers in order.

        ``on_conflict`` and ``batch`` are those of :meth:`send`. Of several messages with one ``unique_key`` the first
        is stored, with ``"replace"`` the last. Raises what :meth:`send` raises; then no message is stored.
        """
        where: Shared | Source | fan_in.Members = self._where(transaction)
        if batch is not None:
            where = fan_in.Members(where, self.name, batch)
        return drive(
            traced.send_batch(self.name, messages, where, self._body_type, on_conflict, self._source.interceptors)
        )

    def schedule(
        self,
        message: Message[BodyT],
        *,
        at: datetime,
        batch: Batch | None = None,
        transaction: Transaction | None = None,
    ) -> SequenceNumber:
        """Stores a message that cannot be received before ``at``, an aware time; see :meth:`send`.

        The message keeps its sequence number. When it is due, it is delivered before the messages that are already
        waiting. Receivers notice within a second that it is due. ``batch`` is that of :meth:`send`.
        """
        return self.send(scheduled(message, at), batch=batch, transaction=transaction)

    def cancel_scheduled(self, sequence_numbers: Sequence[int], *, transaction: Transaction | None = None) -> None:
        """Deletes messages that are not due yet, all or none: scheduled ones, and those abandoned with a delay.

        Takes their ``sequence_numbers``. Those that were abandoned take the right to receive, too.

        Raises:
            MessageNotFoundError: one of the messages is not scheduled, or no longer scheduled; none was deleted.
        """
        drive(self._where(transaction).execute(sending.cancel_scheduled(self.name, sequence_numbers)))

    def sender(self, *, max_in_flight: int = 10, retry: tenacity.BaseRetrying | None = None) -> Sender[BodyT]:
        """Returns a sender, which overlaps sends. Use it in a ``with`` block; its end waits for all sends.

        At most ``max_in_flight`` sends are in flight; the next one waits. ``retry`` sets how often and at what
        intervals a send is retried after a transient failure, as in :func:`pgqueue.process`.
        """
        places = count("max_in_flight", max_in_flight)
        return Sender(
            self.name, self._source, max_in_flight=places, retry=retry_policy(retry), body_type=self._body_type
        )

    def receive(
        self,
        *,
        max_messages: int = 1,
        wait: timedelta | None = None,
        lock_duration: timedelta | None = None,
    ) -> list[ReceivedMessage[BodyT]]:
        """Locks up to ``max_messages`` and returns them; they stay in the queue, hidden from other receivers.

        Waits up to ``wait`` for the first message, without a transaction or a connection; returns [] when none came.
        ``lock_duration`` defaults to that of the queue.
        """
        statement = receiving_verbs.receive(
            self.name, max_messages=max_messages, lock_duration=lock_duration, locked_by=this_process()
        )
        return drive(validating.receive(self.name, statement, self._source, wait, self._make))

    @overload
    def accept_session(
        self, session_id: str, *, wait: timedelta | None = ..., lock_duration: timedelta | None = ...
    ) -> Session[BodyT]: ...

    @overload
    def accept_session(
        self, session_id: None = ..., *, wait: timedelta | None = ..., lock_duration: timedelta | None = ...
    ) -> Session[BodyT] | None: ...

    def accept_session(
        self,
        session_id: str | None = None,
        *,
        wait: timedelta | None = None,
        lock_duration: timedelta | None = None,
    ) -> Session[BodyT] | None:
        """Locks a session, so that only you receive its messages: the one named, or the next that is available.

        The next one is that which has waited longest; None when none has messages, after waiting up to ``wait``.
        ``lock_duration`` defaults to that of the queue, which must have been created with ``requires_session``.

        Raises:
            SessionCannotBeLockedError: another receiver holds the session that you named, also when ``wait`` is over.
        """
        row = drive(sessions.accept(self.name, session_id, self._source, wait, lock_duration))
        return None if row is None else accepted(Session, self.name, row, self._source, self._body_type)

    def list_sessions(self) -> list[SessionProperties]:
        """Returns the sessions of this queue that are locked, have messages or state: who holds each until when.

        It counts the messages of each session, so it takes time in proportion to their number.
        """
        return drive(self._source.execute(session_verbs.list_sessions(self.name)))

    def receive_deferred(
        self, sequence_numbers: Sequence[int], *, lock_duration: timedelta | None = None
    ) -> list[ReceivedMessage[BodyT]]:
        """Locks deferred messages by their sequence numbers and returns them, except those that are locked by others.

        When such a message is abandoned, or its lock expires, it stays deferred. ``lock_duration`` defaults to that of
        the queue.

        Raises:
            MessageNotFoundError: one of the messages is not deferred, or no longer deferred; none was locked.
        """
        statement = receiving_verbs.receive_deferred(
            self.name, sequence_numbers, lock_duration=lock_duration, locked_by=this_process()
        )
        return drive(validating.receive_at_once(statement, self._source, self._make))

    def receive_and_delete(
        self, *, max_messages: int = 1, wait: timedelta | None = None, transaction: Transaction | None = None
    ) -> list[PeekedMessage[BodyT]]:
        """Receives up to ``max_messages`` and deletes them at once; returns [] when none came.

        Without ``transaction`` delivery is at most once: a message that is lost on the way to you is gone. With
        ``transaction`` this is the traditional transacted receive: your commit deletes the messages, a rollback makes
        them available to every receiver again. Waits up to ``wait`` for the first message; your transaction stays open
        meanwhile.
        """
        statement = receiving_verbs.receive_and_delete(self.name, max_messages=max_messages)
        rows = drive(
            receiving.receive_and_delete(statement, self._turns, self._source, shared(transaction, self._source), wait)
        )
        return [from_row(PeekedMessage, self.name, row, self._body_type) for row in rows]

    @overload
    def receiver(
        self,
        *,
        receive_mode: Literal[ReceiveMode.PEEK_LOCK] = ...,
        prefetch: int = ...,
        sub_queue: SubQueue | None = ...,
    ) -> Receiver[ReceivedMessage[BodyT]]: ...

    @overload
    def receiver(
        self, *, receive_mode: ReceiveMode, prefetch: int = ..., sub_queue: SubQueue | None = ...
    ) -> Receiver[PeekedMessage[BodyT]]: ...

    def receiver(
        self,
        *,
        receive_mode: ReceiveMode = ReceiveMode.PEEK_LOCK,
        prefetch: int = 0,
        sub_queue: SubQueue | None = None,
    ) -> Receiver[Any]:
        """Returns an endless iterator over incoming messages, one at a time. Use it in a ``with`` block.

        ``receive_mode`` is whether the receiver locks each message or deletes it at once. It locks up to ``prefetch``
        messages ahead, to save round trips. Their locks run meanwhile: the receiver does not yield a message whose lock
        may have expired. The end of the block gives back the messages that were not yielded. With ``sub_queue`` it
        receives the dead letters.

        Raises:
            InvalidArgumentError: ``prefetch`` is negative, or was given with the mode RECEIVE_AND_DELETE.
        """
        is_dead = sub_queue is not None and bool(instance("sub_queue", sub_queue, SubQueue))
        name = dead_letter_queue(self.name) if is_dead else self.name
        make = partial(locked, ReceivedMessage, name, source=self._source, body_type=self._body_type)
        return Receiver(arrivals(name, receive_mode, prefetch, this_process(), self._source, make, self._body_type))

    def peek(self, *, max_messages: int = 1, from_sequence_number: int = 0) -> list[PeekedMessage[BodyT]]:
        """Returns messages in ascending order of sequence number, including locked, deferred and scheduled ones.

        Returns up to ``max_messages``, starting at ``from_sequence_number``. Locks nothing, and does not count as a
        delivery.
        """
        statement = receiving_verbs.peek(
            self.name, max_messages=max_messages, from_sequence_number=from_sequence_number
        )
        return [
            from_row(PeekedMessage, self.name, row, self._body_type) for row in drive(self._source.execute(statement))
        ]

    def explain_message(self, sequence_number: int) -> str:
        """Explains why a message is delivered now or is not: locked by whom, scheduled, delayed, exhausted, dead.

        Locks and changes nothing.
        """
        return drive(self._source.execute(receiving_verbs.explain_message(self.name, sequence_number)))

    def unlock(self, sequence_number: int) -> None:
        """Takes the lock of a message away from any receiver: the holder's lock is lost, and anyone can receive it.

        The delivery has counted; if it was the last that the queue allows, the message is dead-lettered.

        Raises:
            MessageNotFoundError: no message with this ``sequence_number`` is locked.
            TransactionConflictError: an open transaction holds the message; the text names its process.
        """
        drive(self._source.execute(receiving_verbs.unlock(self.name, sequence_number)))

    def find_messages(
        self,
        *,
        state: str | None = None,
        subject: str | None = None,
        older_than: timedelta | None = None,
        application_properties: Mapping[str, Any] | None = None,
        session_id: str | None = None,
        message_id: str | None = None,
        correlation_id: str | None = None,
        reason: str | None = None,
        after: int = 0,
        max_messages: int = 50,
    ) -> list[FoundMessage]:
        """Returns up to ``max_messages`` that match all filters, by sequence number, beginning beyond ``after``.

        ``state`` is READY, SCHEDULED, DEFERRED, EXPIRED, EXHAUSTED, LOCKED or DEAD_LETTERED; without it, all but dead
        letters are searched. ``older_than`` is the time since a message was sent, ``reason`` that of dead-lettering.
        ``subject``, ``session_id``, ``message_id``, ``correlation_id`` and each of ``application_properties`` must be
        equal; a message may have other properties. Locks and changes nothing.
        """
        return drive(
            selecting.find(
                self.name,
                Selection(state, subject, older_than, application_properties, session_id),
                self._source,
                after=after,
                max_messages=max_messages,
                message_id=message_id,
                correlation_id=correlation_id,
                reason=reason,
            )
        )

    def delete_messages(self, sequence_numbers: Sequence[int], *, transaction: Transaction | None = None) -> int:
        """Deletes messages that wait, are scheduled or deferred; returns how many.

        Those that a receiver has locked stay, as do those that an open transaction holds, and are not counted.
        """
        return drive(self._where(transaction).execute(selecting_verbs.delete_messages(self.name, sequence_numbers)))

    def delete_matching(
        self,
        *,
        state: str | None = None,
        subject: str | None = None,
        older_than: timedelta | None = None,
        application_properties: Mapping[str, Any] | None = None,
        session_id: str | None = None,
        max_messages: int | None = None,
    ) -> int:
        """Deletes the messages that match every filter given, at most ``max_messages``; returns how many.

        Without a filter, all match. ``state`` is READY, SCHEDULED, DEFERRED, EXPIRED or EXHAUSTED. ``subject``,
        ``older_than``, ``application_properties`` and ``session_id`` are as in :meth:`find_messages`. Messages that a
        receiver has locked stay, as do those that an open transaction holds. Each transaction deletes up to ten
        thousand: if one fails, the messages of earlier ones stay deleted.
        """
        selection = Selection(state, subject, older_than, application_properties, session_id)
        return drive(selecting.delete_matching(self.name, selection, self._source, max_messages=max_messages))

    def cancel(self, sequence_number: int, *, reason: str | None = None) -> bool:
        """Cancels a message, also one that is being worked on; returns whether it was cancelled.

        It is not delivered again. With a ``reason`` it becomes a dead letter, for Cancelled, described by the reason;
        without one it is deleted. If it is locked, its holder loses the lock: its ``lock_lost`` is set, and it cannot
        settle the message. Returns False if there is no such message, or if an open transaction holds it, such as that
        of a handler with ``tx``: that decides about it. :meth:`explain_message` shows which.
        """
        return drive(self._source.execute(selecting_verbs.cancel(self.name, sequence_number, reason=reason)))

    def move_messages(self, sequence_numbers: Sequence[int], *, to: str, transaction: Transaction | None = None) -> int:
        """Moves messages that wait, are scheduled or deferred to another queue; returns how many.

        They keep their sequence numbers, properties and deliveries, and go before the fresh messages. The other queue
        takes them as if they were sent there. Those that a receiver has locked stay, as do those that an open
        transaction holds, and those that are duplicates there; they are not counted.

        Raises:
            InvalidArgumentError: ``to`` is a topic or this queue, or one of the queues requires sessions.
            QueueNotFoundError: there is no such queue.
            QueueFullError: the queue has reached its ``max_queue_length``; nothing was moved.
            QueueDisabledError: the status of the queue forbids sending.
            MessageSizeExceededError: a message is larger than the queue allows; nothing was moved.
        """
        return drive(
            self._where(transaction).execute(selecting_verbs.move_messages(self.name, sequence_numbers, to=to))
        )

    def reschedule(self, sequence_number: int, *, at: datetime) -> None:
        """Gives another time to a message that is scheduled, or was abandoned with a delay.

        For an abandoned one the right to receive is needed, too.

        Raises:
            MessageNotFoundError: the message is not scheduled, or no longer scheduled.
        """
        drive(self._source.execute(selecting_verbs.reschedule(self.name, sequence_number, at=at)))

    def complete_batch(
        self, received: Iterable[ReceivedMessage[BodyT]], *, transaction: Transaction | None = None
    ) -> list[SettlementResult]:
        """Completes many messages in one round trip; returns one result for each message, in order.

        In its own transaction, a lost lock affects only its own message; the others are completed. In your transaction,
        a lost lock aborts the whole transaction with :class:`~pgqueue.errors.LockLostError`.
        """
        statement = partial(settling.complete_batch, self.name, atomic=transaction is not None)
        return self._settle(received, context.Outcome.COMPLETED, statement, transaction)

    def abandon_batch(
        self,
        received: Iterable[ReceivedMessage[BodyT]],
        *,
        delay: timedelta | None = None,
        properties: Mapping[str, Any] | None = None,
        error: BaseException | None = None,
        transaction: Transaction | None = None,
    ) -> list[SettlementResult]:
        """Abandons many messages in one round trip; see :meth:`complete_batch` and ``ReceivedMessage.abandon``.

        ``delay``, ``properties`` and ``error`` apply to all of them.
        """
        statement = partial(
            settling.abandon_batch,
            self.name,
            delay=delay,
            properties=properties,
            error=error,
            atomic=transaction is not None,
        )
        return self._settle(received, context.Outcome.ABANDONED, statement, transaction)

    def dead_letter_batch(
        self,
        received: Iterable[ReceivedMessage[BodyT]],
        *,
        reason: str,
        description: str | None = None,
        properties: Mapping[str, Any] | None = None,
        error: BaseException | None = None,
        transaction: Transaction | None = None,
    ) -> list[SettlementResult]:
        """Dead-letters many messages in one round trip; see :meth:`complete_batch`.

        ``reason``, ``description``, ``properties`` and ``error`` apply to all of them, as in
        ``ReceivedMessage.dead_letter``.
        """
        statement = partial(
            settling.dead_letter_batch,
            self.name,
            reason=reason,
            description=description,
            properties=properties,
            error=error,
            atomic=transaction is not None,
        )
        return self._settle(received, context.Outcome.DEAD_LETTERED, statement, transaction)

    def defer_batch(
        self,
        received: Iterable[ReceivedMessage[BodyT]],
        *,
        properties: Mapping[str, Any] | None = None,
        transaction: Transaction | None = None,
    ) -> list[SettlementResult]:
        """Defers many messages in one round trip; see :meth:`complete_batch` and ``ReceivedMessage.defer``.

        ``properties`` apply to all of them.
        """
        statement = partial(settling.defer_batch, self.name, properties=properties, atomic=transaction is not None)
        return self._settle(received, context.Outcome.DEFERRED, statement, transaction)

    def renew_lock_batch(
        self,
        received: Iterable[ReceivedMessage[BodyT]],
        *,
        lock_duration: timedelta | None = None,
        transaction: Transaction | None = None,
    ) -> list[SettlementResult]:
        """Renews many locks in one round trip; returns a result with ``locked_until`` for each message, in order.

        ``lock_duration`` defaults to that of the queue. With ``transaction`` they are renewed if, and only if, your
        transaction commits, and one lock that is lost raises :class:`~pgqueue.errors.LockLostError`, for all of them.
        """
        return drive(
            batches.renew_lock_batch(
                self.name, received, lock_duration, self._source, shared(transaction, self._source)
            )
        )

    def history(
        self,
        *,
        since: datetime | None = None,
        outcome: str | None = None,
        message_id: str | None = None,
        sequence_number: int | None = None,
        limit: int = 100,
    ) -> list[SettledMessage]:
        """Returns what became of settled messages, most recent first; the queue must have ``retain_history`` set.

        Returns up to ``limit`` entries. ``since``, ``outcome``, ``message_id`` and ``sequence_number`` filter them: an
        entry must match every filter that is given.
        """
        statement = remembering.history(
            self.name,
            since=since,
            outcome=outcome,
            message_id=message_id,
            sequence_number=sequence_number,
            limit=limit,
        )
        return drive(self._source.execute(statement))

    def result(self, sequence_number: int) -> Outcome | None:
        """Returns the outcome of a message; None while it is not settled, and after ``result_retention``.

        The queue must have this setting. The right to send to the queue or to receive from it suffices.
        """
        return drive(results.result(self.name, sequence_number, self._source))

    def wait_for(self, sequence_number: int, *, timeout: timedelta | None = None) -> Outcome:
        """Waits until a message is settled, and returns its outcome.

        First commit the transaction that sends the message. No transaction and no connection is held while it waits.
        Without ``timeout`` it waits for as long as it takes.

        Raises:
            OperationTimeoutError: the message was not settled in time.
            MessageNotFoundError: the queue has neither the message nor its outcome.
            InvalidArgumentError: the queue keeps no results.
        """
        return drive(results.wait_for(self.name, sequence_number, timeout, self._source))

    def _make(self, row: Row) -> ReceivedMessage[BodyT]:
        return locked(ReceivedMessage, self.name, row, self._source, self._body_type)

    def _settle(
        self,
        received: Iterable[ReceivedMessage[BodyT]],
        outcome: context.Outcome,
        statement: batches.BatchStatement,
        transaction: Transaction | None,
    ) -> list[SettlementResult]:
        return drive(
            batches.settle(self.name, received, outcome, statement, self._source, shared(transaction, self._source))
        )

    def _where(self, transaction: Transaction | None) -> Shared | Source:
        return transports.where(transaction, self._source, asynchronous=False)


class DeadLetters(Queue[BodyT]):
    """The dead letters of a queue, as a queue of their own: receive them under lock, settle them, peek at them.

    The name of this queue is ``<queue>/$deadletterqueue``. Dead letters never expire and are never dead-lettered again.
    They stay until they are completed, resubmitted or purged. Sending to this queue, or deferring its messages, raises
    :class:`~pgqueue.errors.InvalidArgumentError`.
    """

    def __init__(self, queue: str, source: Source, body_type: BodyType | None = None) -> None:
        super().__init__(dead_letter_queue(queue), source, body_type)

    def purge(self, *, sequence_numbers: Sequence[int] | None = None) -> int:
        """Deletes all dead letters, including locked ones; returns how many.

        With ``sequence_numbers`` it deletes these, except those that are locked, in transactions of a thousand each: if
        one fails, the earlier ones stay deleted. Skips those that an open transaction holds.
        """
        if sequence_numbers is None:
            return drive(queues.purge(self.name, self._source))
        return drive(dead_letters.purge(dead_letters_of(self.name), self._source, sequence_numbers))

    def resubmit(
        self,
        *,
        sequence_numbers: Sequence[int] | None = None,
        reason: str | None = None,
        older_than: timedelta | None = None,
        limit: int | None = None,
    ) -> list[int]:
        """Moves dead letters back into the queue, with their delivery count reset; returns their sequence numbers.

        ``sequence_numbers``, ``reason`` and ``older_than`` (the time since they were dead-lettered) filter the dead
        letters: a dead letter must match every filter that is given; without a filter, all match. At most ``limit`` are
        moved, oldest first; those that a transaction or a lock holds are skipped. They are moved in transactions of a
        thousand each: if one fails, the earlier ones stay moved.
        """
        return drive(
            dead_letters.resubmit(
                dead_letters_of(self.name),
                self._source,
                sequence_numbers=sequence_numbers,
                reason=reason,
                older_than=older_than,
                limit=limit,
            )
        )
