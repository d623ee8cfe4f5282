"""The work of a queued transmitter, as flows that both faces run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

from pgqueue import transports
from pgqueue.errors import CommitInDoubtError, LockLostError, MessageNotReadableError, PGQueueError, logger
from pgqueue.flows import Flow, Pause, Source, processing, receiving, settling, traced
from pgqueue.flows.flow import Begun, Shared, bodies_of, intercepted
from pgqueue.flows.locked import LockedMessage, locked
from pgqueue.leases.lock_renewals import LockRenewals
from pgqueue.leases.loop import Heartbeat, Recovery
from pgqueue.model.arguments import instance
from pgqueue.model.body_type import WITHHELD
from pgqueue.model.context import Outcome
from pgqueue.model.encoding import UNCHANGED
from pgqueue.model.failure import text_of, type_of
from pgqueue.model.holder import this_process
from pgqueue.model.message import Message
from pgqueue.notifications.notification import (
    MEMORY,
    Memory,
    Pace,
    QueueNotification,
    attached_memory,
    checked_time_to_live,
)
from pgqueue.notifications.receipts import Fate, ReceiptStatus, Round, described
from pgqueue.notifications.recipients import Recipients, is_due
from pgqueue.notifications.registry import CONTENT_TYPE, NotificationTypes, memory_of, remembering
from pgqueue.statements import Statement
from pgqueue.statements import receiving as receiving_verbs
from pgqueue.statements import settling as verbs

#: How often notifications had each fate; None is that they could not be settled.
Fates = Counter[Fate | None]

PATIENCE = timedelta(seconds=1)
SHORTEST_REST = timedelta(seconds=1)
LONGEST_RENEWAL = timedelta(hours=1)


@dataclass(frozen=True)
class Processed:
    """The number of notifications that were removed, kept to be sent again, dead-lettered, and lost.

    ``lost`` counts those that could not be settled; they are delivered again when their locks have expired.
    """

    removed: int = 0
    kept: int = 0
    dead_lettered: int = 0
    lost: int = 0

    @property
    def total(self) -> int:
        """The number of all that were received."""
        return self.removed + self.kept + self.dead_lettered + self.lost


@dataclass
class Delivery:
    """A notification under its lock; without the notification itself where it cannot be read."""

    received: LockedMessage
    memory: Memory
    notification: QueueNotification | None = None
    #: The notification's fields before the round, as JSON.
    before: str = ""


class Processing:
    """Receives notifications from a queue, calls the recipients, and settles them as the table of fates demands."""

    def __init__(
        self, queue: str, source: Source, types: NotificationTypes, recipients: Recipients, *,
        work_source: Any, pace: Pace | None, time_to_live: timedelta | None, asynchronous: bool,
    ) -> None:  # fmt: skip
        self.queue = queue
        self.source = source
        self.body_type = bodies_of(source)
        self.types = instance("types", types, NotificationTypes)
        self.recipients = recipients
        self.pace = Pace() if pace is None else instance("pace", pace, Pace)
        self.time_to_live = checked_time_to_live(time_to_live)
        self._rest = receiving.Rest()
        self._begin: processing.Begin = (
            source.begin
            if work_source is None
            else partial(transports.begin, work_source, source, asynchronous=asynchronous)
        )

    def store(self, notification: QueueNotification, where: Shared | Source) -> Flow[ReceiptStatus]:
        """Puts a notification into the queue; OK means that the request was accepted."""
        memory = attached_memory(instance("notification", notification, QueueNotification))
        if memory.expires_at is None:
            memory.time_to_live = self.time_to_live
        body = self.types.to_body(notification)
        message = Message(body, subject=body["notification"], content_type=CONTENT_TYPE)
        interceptors = self.source.interceptors
        yield from traced.send(self.queue, message, where, self.body_type, interceptors=interceptors)
        return ReceiptStatus.OK

    def pending(self) -> Flow[Processed]:
        """Processes all notifications that are ready now, one after the other."""
        fates: Fates = Counter()
        with closing(LockRenewals(LONGEST_RENEWAL, None)) as renewals:
            while received := (yield from self._receive(None)):
                fates[(yield from self._settled(received, renewals))] += 1
        return _processed(fates)

    def forever(self, is_over: Callable[[], bool]) -> Flow[Processed]:
        """Processes notifications until ``is_over``. Waits after transient errors, and raises permanent ones."""
        fates: Fates = Counter()
        recovery = Recovery("notifications", Heartbeat())
        with closing(LockRenewals(LONGEST_RENEWAL, None)) as renewals:
            while not is_over():
                try:
                    received = yield from self._receive(PATIENCE, self._rest)
                except PGQueueError as error:
                    yield Pause(timedelta(seconds=recovery.failed(error)))
                    continue
                recovery.passed()
                if received is not None:
                    fates[(yield from self._settled(received, renewals))] += 1
        return _processed(fates)

    def _receive(self, wait: timedelta | None, rest: receiving.Rest | None = None) -> Flow[LockedMessage | None]:
        statement = receiving_verbs.receive(self.queue, max_messages=1, lock_duration=None, locked_by=this_process())
        rows = yield from receiving.wait_for(self.queue, statement, self.source, wait, rest)
        return locked(LockedMessage, self.queue, rows[0], self.source, self.body_type) if rows else None

    def _settled(self, received: LockedMessage, renewals: LockRenewals) -> Flow[Fate | None]:
        """Process a notification while its lock is renewed; None if it could not be settled."""
        renewals.keep(received)
        try:
            return (yield from self._process(received))
        except Exception as error:  # noqa: BLE001 - a type's own mapping may raise anything
            received.context.fault_and_log()  # stops the renewal of its lock
            logger.warning(
                "notification %s of %s could not be settled; it is delivered again after its lock expires: %s",
                received.sequence_number,
                self.queue,
                text_of(error),
                exc_info=None if isinstance(error, PGQueueError) else error,
            )
        return None

    def _process(self, received: LockedMessage) -> Flow[Fate]:
        round_ = Round()
        delivery = self._read(received, round_)
        notification, memory = delivery.notification, delivery.memory
        memory.now = yield from self.source.execute(receiving_verbs.clock())
        memory.created_at = received.enqueued_time
        if memory.expires_at is None and memory.time_to_live is not None:
            memory.expires_at = received.enqueued_time + memory.time_to_live
        if memory.complete:
            yield from settling.settle(received, Outcome.COMPLETED, verbs.complete(received.lock))
            return Fate.REMOVED
        if notification is None:
            return (yield from self._settle(delivery, round_))
        try:
            is_ready = is_due(notification)
        except Exception as error:  # noqa: BLE001 - the application's code may raise anything
            logger.warning("notification %s of %s failed", received.sequence_number, self.queue, exc_info=error)
            round_.fail(error)
            return (yield from self._settle(delivery, round_))
        if not is_ready:
            statement = verbs.postpone(received.lock, delay=self._rest_unready(memory), body=UNCHANGED)
            yield from settling.settle(received, Outcome.ABANDONED, statement)
            return Fate.SENT_AGAIN
        if self.recipients.take_transactions:
            return (yield from self._notify_in_transaction(delivery, notification))
        round_ = yield from self._notify(delivery, notification, None)
        return (yield from self._settle(delivery, round_))

    def _read(self, received: LockedMessage, round_: Round) -> Delivery:
        """Read the notification, if possible, and its memory; what cannot be read counts as a failure of the round."""
        delivery = Delivery(received, Memory(time_to_live=self.time_to_live))
        try:
            delivery.memory = memory_of(received.body, otherwise=self.time_to_live)
            notification = self.types.from_body(received.body)
            if notification is not None:
                notification.__dict__[MEMORY] = delivery.memory
                delivery.before = self._fields_of(notification)
                delivery.notification = notification
        except Exception as failure:  # noqa: BLE001 - a type's own mapping may raise anything, with the data in its text
            is_shown = self.body_type is None or isinstance(failure, MessageNotReadableError)
            error = failure if is_shown else ValueError(f"{type_of(failure)}{WITHHELD}")
            logger.warning("notification %s of %s cannot be read", received.sequence_number, self.queue, exc_info=error)
            round_.fail(error)
        return delivery

    def _fields_of(self, notification: QueueNotification) -> str:
        return json.dumps(self.types.to_body(notification)["data"])

    def _notify_in_transaction(self, delivery: Delivery, notification: QueueNotification) -> Flow[Fate]:
        """Commit the recipients' work in the transaction together with the settlement of the notification.

        If the notification is sent again because of a failure, or is dead-lettered, that work is undone, but not the
        pin: no other receiver can take the message over in between. A refused commit counts as a failure.
        """
        received, memory = delivery.received, delivery.memory
        forwarded, complete = [*memory.forwarded], memory.complete
        begun = yield from processing.enter(received, self._begin)
        try:
            yield from begun.set_savepoint()
            round_ = yield from self._notify(delivery, notification, begun.handle)
        except BaseException as error:
            yield from processing.roll_back_delivery(received, begun, error)
            raise
        fate = round_.fate(memory.timing)
        is_undone = fate is Fate.DEAD_LETTERED or (fate is Fate.SENT_AGAIN and round_.has_failed)
        try:
            if is_undone:
                memory.forwarded = forwarded
            yield from self._commit(delivery, begun, round_, fate, is_undone=is_undone)
            return fate
        except (LockLostError, CommitInDoubtError):
            raise
        except PGQueueError as error:
            logger.warning("the round of %s of %s was undone: %s", received.sequence_number, self.queue, error)
            round_, memory.complete, memory.forwarded = Round(), complete, forwarded
            round_.fail(error)
        return (yield from self._settle(delivery, round_))

    def _notify(self, delivery: Delivery, notification: QueueNotification, transaction: Any) -> Flow[Round]:
        """Run the round within the interceptors, whose errors are failures of the round."""

        def run(_: LockedMessage) -> Flow[Round]:
            return self.recipients.notify(notification, transaction)

        try:
            return (yield from intercepted(self.source.interceptors, "handle", delivery.received, run))
        except Exception as error:  # noqa: BLE001 - an interceptor may raise anything
            logger.warning(
                "an interceptor failed on notification %s of %s",
                delivery.received.sequence_number,
                self.queue,
                exc_info=error,
            )
            return Round().fail(error)

    def _commit(self, delivery: Delivery, begun: Begun, round_: Round, fate: Fate, *, is_undone: bool) -> Flow[None]:
        """End the transaction of a round: remove the notification, or store its memory."""
        received = delivery.received
        try:
            if is_undone:
                yield from begun.roll_back_to_savepoint()
            if fate is not Fate.REMOVED:
                yield from processing.settle_within(received, *self._settlement(delivery, round_, fate), begun)
        except BaseException as error:
            yield from processing.roll_back_delivery(received, begun, error)
            raise
        if fate is Fate.REMOVED:
            yield from processing.leave(received, begun)
        else:
            yield from processing.commit_one(received, begun, None)

    def _settle(self, delivery: Delivery, round_: Round) -> Flow[Fate]:
        """Settle the delivery by the fate of its round, in a transaction of its own."""
        fate = round_.fate(delivery.memory.timing)
        yield from settling.settle(delivery.received, *self._settlement(delivery, round_, fate))
        return fate

    def _settlement(self, delivery: Delivery, round_: Round, fate: Fate) -> tuple[Outcome, Statement[Any]]:
        lock = delivery.received.lock
        match fate:
            case Fate.REMOVED:
                return Outcome.COMPLETED, verbs.complete(lock)
            case Fate.SENT_AGAIN:
                delay, body = self._again(delivery)
                return Outcome.ABANDONED, verbs.postpone(lock, delay=delay, body=body, body_type=self.body_type)
        # The memory of the last round stays in the body, for a later resubmission, which is in time again.
        # An encrypted body stays as it was before that round: dead_letter() takes JSON.
        _, body = self._again(replace(delivery, memory=replace(delivery.memory, timed_out=False)))
        body = body if self.body_type is None else UNCHANGED
        why = described(round_.errors, round_.aggregate)
        statement = verbs.dead_letter(lock, reason="TTLExpiredException", description=why, body=body)
        return Outcome.DEAD_LETTERED, statement

    def _again(self, delivery: Delivery) -> tuple[timedelta, Any]:
        """When the notification comes again, and with which fields and memory."""
        after = replace(delivery.memory, attempts=delivery.memory.attempts + 1)
        body = self._body_after(delivery)
        if isinstance(body, dict):
            return _until(after, self.pace.rest(after.attempts)), remembering(body, after)
        return self._rest_unready(delivery.memory), UNCHANGED

    def _body_after(self, delivery: Delivery) -> Any:
        """The body after the round: of this version of the type only if a recipient has changed a field."""
        notification = delivery.notification
        if notification is not None and self._fields_of(notification) != delivery.before:
            return self.types.to_body(notification)
        return _readable_body(delivery.received)

    def _rest_unready(self, memory: Memory) -> timedelta:
        """The longer a notification has not been ready, the less often it is asked."""
        assert memory.now is not None
        assert memory.created_at is not None
        return max(SHORTEST_REST, _until(memory, self.pace.rest_unready(memory.now - memory.created_at)))


def _processed(fates: Fates) -> Processed:
    return Processed(fates[Fate.REMOVED], fates[Fate.SENT_AGAIN], fates[Fate.DEAD_LETTERED], fates[None])


def to_forward(notification: QueueNotification, types: NotificationTypes, queue: str) -> Message | None:
    """The copy of a notification for another queue, with a memory of its own; None when it was forwarded before."""
    memory = attached_memory(notification)
    if queue in memory.forwarded:
        return None
    memory.forwarded.append(queue)
    body = remembering(types.to_body(notification), Memory(expires_at=memory.expires_at))
    return Message(body, subject=body["notification"], content_type=CONTENT_TYPE)


def _readable_body(received: LockedMessage) -> Any:
    """The body; None where it cannot be read, which nothing can be remembered in."""
    try:
        return received.body
    except MessageNotReadableError:
        return None


def _until(memory: Memory, rest: timedelta) -> timedelta:
    if memory.expires_at is None or memory.now is None:
        return rest
    return min(rest, max(memory.expires_at - memory.now, timedelta(0)))
