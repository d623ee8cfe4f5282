"""The asynchronous face of a queue: signatures and docstrings, one line each to the database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import tenacity

from pgqueue import transports
from pgqueue.aio.received import ReceivedMessage
from pgqueue.aio.receiver import Receiver
from pgqueue.aio.sender import Sender
from pgqueue.flows import Shared, Source, batches, dead_letters, queues, receiving, traced
from pgqueue.flows.arrivals import arrivals
from pgqueue.model.context import Outcome
from pgqueue.model.encoding import scheduled
from pgqueue.model.holder import this_process
from pgqueue.model.message import Message, PeekedMessage, SequenceNumber, SettledMessage
from pgqueue.model.names import dead_letter_queue, dead_letters_of
from pgqueue.model.policy import retry_policy
from pgqueue.model.settings import ReceiveMode, SettlementResult, SubQueue
from pgqueue.statements import history as remembering
from pgqueue.statements import receiving as receiving_verbs
from pgqueue.statements import sending, settling
from pgqueue.statements.arguments import count
from pgqueue.transports import adrive


class Queue:
    """A queue by name: cheap, and safe to use from several tasks. It need not exist before its first use.

    Made by :meth:`pgqueue.aio.QueueClient.queue`. ``transaction`` is a psycopg AsyncConnection, or a SQLAlchemy
    AsyncSession or AsyncConnection, in whose transaction a call takes part; without it a call has a transaction of its
    own. Every call raises :class:`~pgqueue.errors.QueueNotFoundError` for an unknown queue and
    :class:`~pgqueue.errors.ConnectionLostError` when the database cannot be reached.
    """

    def __init__(self, name: str, source: Source) -> None:
        self.name = name
        self._source = source
        self._turns = receiving.Turns(name, source)

    def __repr__(self) -> str:
        return f"Queue({self.name!r})"

    @property
    def dead_letters(self) -> DeadLetters:
        """The messages of this queue that went wrong, with the reasons: a queue of its own, but for sending."""
        return DeadLetters(self.name, self._source)

    async def send(self, message: Message, *, transaction: object = None) -> SequenceNumber:
        """Stores a message and returns its sequence number; numbers increase, and may have gaps.

        When it returns the message is stored, or part of your transaction. A duplicate is not stored again: the number
        is that of the message that was sent before, and its ``is_duplicate`` says so.

        Raises:
            MessageNotSerializableError: a field cannot be stored; the error names it.
            MessageSizeExceededError: it is larger than the queue allows.
            QueueFullError: the queue holds as many messages as it may.
            QueueDisabledError: the queue's status forbids it.
        """
        return await adrive(traced.send(self.name, message, self._where(transaction)))

    async def send_batch(self, messages: Iterable[Message], *, transaction: object = None) -> list[SequenceNumber]:
        """Stores many messages in one round trip, all or none; returns their sequence numbers in order.

        Raises what :meth:`send` raises; then none is stored.
        """
        return await adrive(traced.send_batch(self.name, messages, self._where(transaction)))

    async def schedule(self, message: Message, *, at: datetime, transaction: object = None) -> SequenceNumber:
        """Stores a message that cannot be received before ``at``, an aware time; see :meth:`send`.

        It keeps its number, and goes before the messages that wait when its time has come. Receivers notice it within
        a second.
        """
        return await self.send(scheduled(message, at), transaction=transaction)

    async def cancel_scheduled(self, sequence_numbers: Sequence[int], *, transaction: object = None) -> None:
        """Deletes scheduled messages, those that were abandoned with a delay too, before their time comes: all or none.

        Raises:
            MessageNotFoundError: one is not scheduled, or not any more.
        """
        await adrive(self._where(transaction).execute(sending.cancel_scheduled(self.name, sequence_numbers)))

    def sender(self, *, max_in_flight: int = 10, retry: tenacity.BaseRetrying | None = None) -> Sender:
        """Sends that overlap, to be used in an ``async with`` block, whose end waits for all of them.

        ``max_in_flight`` is how many may be out; the next one waits. ``retry`` says how often, and how far apart, what
        failed for a passing reason is tried, as in :func:`pgqueue.aio.process`.
        """
        places = count("max_in_flight", max_in_flight)
        return Sender(self.name, self._source, max_in_flight=places, retry=retry_policy(retry))

    async def receive(
        self,
        *,
        max_messages: int = 1,
        wait: timedelta | None = None,
        lock_duration: timedelta | None = None,
    ) -> list[ReceivedMessage]:
        """Locks up to ``max_messages`` and returns them; they stay in the queue, hidden from others.

        Waits up to ``wait`` for the first, holding neither a transaction nor a connection; [] when nothing came.
        ``lock_duration`` is the queue's own unless given.
        """
        statement = receiving_verbs.receive(
            self.name, max_messages=max_messages, lock_duration=lock_duration, locked_by=this_process()
        )
        rows = await adrive(receiving.wait_for(self.name, statement, self._source, wait))
        return [ReceivedMessage._locked(self.name, row, self._source) for row in rows]

    async def receive_deferred(
        self, sequence_numbers: Sequence[int], *, lock_duration: timedelta | None = None
    ) -> list[ReceivedMessage]:
        """Locks deferred messages by their numbers and returns them, but for those that somebody else holds.

        Abandoned, or when the lock has expired, they are deferred still.

        Raises:
            MessageNotFoundError: one is not deferred, or not any more; none is locked.
        """
        statement = receiving_verbs.receive_deferred(
            self.name, sequence_numbers, lock_duration=lock_duration, locked_by=this_process()
        )
        return [
            ReceivedMessage._locked(self.name, row, self._source)
            for row in await adrive(self._source.execute(statement))
        ]

    async def receive_and_delete(
        self, *, max_messages: int = 1, wait: timedelta | None = None, transaction: object = None
    ) -> list[PeekedMessage]:
        """Takes up to ``max_messages`` out of the queue. At most once: what is lost on the way is lost.

        With ``transaction`` it is the traditional transacted receive: your commit takes them out, an abort puts them
        back for anyone. ``wait`` is for the first to come; then your transaction stays open meanwhile.
        """
        statement = receiving_verbs.receive_and_delete(self.name, max_messages=max_messages)
        rows = await adrive(
            receiving.receive_and_delete(statement, self._turns, self._source, _shared(transaction), wait)
        )
        return [PeekedMessage._from_row(self.name, row) for row in rows]

    def receiver(
        self,
        *,
        receive_mode: ReceiveMode = ReceiveMode.PEEK_LOCK,
        prefetch: int = 0,
        sub_queue: SubQueue | None = None,
    ) -> Receiver:
        """An endless iterator over what arrives, one message at a time, to be used in an ``async with`` block.

        ``receive_mode`` says whether it locks what it receives, or deletes it at once. Up to ``prefetch`` messages are
        locked ahead, to save round trips. Their locks run meanwhile: one that may be over when its turn comes is not
        handed out. The end of the block gives back what was not. With ``sub_queue`` it receives the dead letters.

        Raises:
            InvalidArgumentError: ``prefetch`` with the mode RECEIVE_AND_DELETE, or negative.
        """
        name = self.name if sub_queue is None else dead_letter_queue(self.name)
        make = partial(ReceivedMessage._locked, name, source=self._source)
        return Receiver(arrivals(name, receive_mode, prefetch, this_process(), self._source, make))

    async def peek(self, *, max_messages: int = 1, from_sequence_number: int = 0) -> list[PeekedMessage]:
        """Browses by ascending sequence number, locked, deferred and scheduled messages too.

        Up to ``max_messages``, and none below ``from_sequence_number``. Changes and counts nothing.
        """
        statement = receiving_verbs.peek(
            self.name, max_messages=max_messages, from_sequence_number=from_sequence_number
        )
        return [PeekedMessage._from_row(self.name, row) for row in await adrive(self._source.execute(statement))]

    async def complete_batch(
        self, received: Iterable[ReceivedMessage], *, transaction: object = None
    ) -> list[SettlementResult]:
        """Completes many messages in one round trip; a result each, in order.

        In its own transaction one lost lock neither hides nor undoes the others. In yours it aborts all, with
        :class:`~pgqueue.errors.LockLostError`.
        """
        statement = partial(settling.complete_batch, self.name, atomic=transaction is not None)
        return await self._settle(received, Outcome.COMPLETED, statement, transaction)

    async def abandon_batch(
        self,
        received: Iterable[ReceivedMessage],
        *,
        delay: timedelta | None = None,
        properties: Mapping[str, Any] | None = None,
        transaction: object = None,
    ) -> list[SettlementResult]:
        """Gives many messages back in one round trip; see :meth:`complete_batch` and ``ReceivedMessage.abandon``.

        ``delay`` and ``properties`` hold for all of them.
        """
        statement = partial(
            settling.abandon_batch, self.name, delay=delay, properties=properties, atomic=transaction is not None
        )
        return await self._settle(received, Outcome.ABANDONED, statement, transaction)

    async def dead_letter_batch(
        self,
        received: Iterable[ReceivedMessage],
        *,
        reason: str,
        description: str | None = None,
        transaction: object = None,
    ) -> list[SettlementResult]:
        """Moves many messages to the dead letters in one round trip; see :meth:`complete_batch`.

        ``reason`` and ``description`` hold for all of them.
        """
        statement = partial(
            settling.dead_letter_batch,
            self.name,
            reason=reason,
            description=description,
            atomic=transaction is not None,
        )
        return await self._settle(received, Outcome.DEAD_LETTERED, statement, transaction)

    async def defer_batch(
        self,
        received: Iterable[ReceivedMessage],
        *,
        properties: Mapping[str, Any] | None = None,
        transaction: object = None,
    ) -> list[SettlementResult]:
        """Sets many messages aside in one round trip; see :meth:`complete_batch` and ``ReceivedMessage.defer``.

        ``properties`` hold for all of them.
        """
        statement = partial(settling.defer_batch, self.name, properties=properties, atomic=transaction is not None)
        return await self._settle(received, Outcome.DEFERRED, statement, transaction)

    async def renew_lock_batch(
        self, received: Iterable[ReceivedMessage], *, lock_duration: timedelta | None = None
    ) -> list[SettlementResult]:
        """Renews many locks in one round trip; a result each, with ``locked_until``, in order."""
        return await adrive(batches.renew_lock_batch(self.name, received, lock_duration, self._source))

    async def history(
        self,
        *,
        since: datetime | None = None,
        outcome: str | None = None,
        message_id: str | None = None,
        sequence_number: int | None = None,
        limit: int = 100,
    ) -> list[SettledMessage]:
        """What became of settled messages, the last first, up to ``limit``; the queue must ``retain_history``.

        Those settled ``since`` then, with this ``outcome``, ``message_id`` or ``sequence_number``, as far as given.
        """
        statement = remembering.history(
            self.name,
            since=since,
            outcome=outcome,
            message_id=message_id,
            sequence_number=sequence_number,
            limit=limit,
        )
        return await adrive(self._source.execute(statement))

    async def _settle(
        self,
        received: Iterable[ReceivedMessage],
        outcome: Outcome,
        statement: batches.BatchStatement,
        transaction: object,
    ) -> list[SettlementResult]:
        return await adrive(batches.settle(self.name, received, outcome, statement, self._source, _shared(transaction)))

    def _where(self, transaction: object) -> Shared | Source:
        return _shared(transaction) or self._source


class DeadLetters(Queue):
    """The dead letters of a queue, as a queue of their own: received under lock, settled, browsed.

    Its name is ``<queue>/$deadletterqueue``. They never expire, are never dead-lettered again, and go only when
    somebody completes, resubmits or purges them. Nothing can be sent to them, and none be deferred: that raises
    :class:`~pgqueue.errors.InvalidArgumentError`.
    """

    def __init__(self, queue: str, source: Source) -> None:
        super().__init__(dead_letter_queue(queue), source)

    async def purge(self) -> int:
        """Deletes them all, locked ones too, and returns how many. What an open transaction holds is left to it."""
        return await adrive(queues.purge(self.name, self._source))

    async def resubmit(
        self,
        *,
        sequence_numbers: Sequence[int] | None = None,
        reason: str | None = None,
        older_than: timedelta | None = None,
        limit: int | None = None,
    ) -> list[int]:
        """Moves dead letters back into the queue, to be delivered as if for the first time; returns their numbers.

        Those with these ``sequence_numbers``, with this ``reason``, dead-lettered longer ago than ``older_than``: all
        that is given must fit, and nothing given means all, ``limit`` at the most; those that somebody holds stay. By a
        thousand each in transactions of their own, the oldest first: if one fails, those before it are moved.
        """
        return await adrive(
            dead_letters.resubmit(
                dead_letters_of(self.name),
                self._source,
                sequence_numbers=sequence_numbers,
                reason=reason,
                older_than=older_than,
                limit=limit,
            )
        )


def _shared(transaction: object) -> Shared | None:
    return None if transaction is None else transports.shared(transaction, asynchronous=True)
