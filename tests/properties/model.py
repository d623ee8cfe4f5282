"""A queue in plain Python: its semantics without a database. Times are in milliseconds.

The model defines which messages a receive *may* return and which it *must*. The place of a message is certain while it
was never locked, or since it was given back. A message whose lock has run out, or whose delay is over, or which an open
transaction held during a receive, comes back into every receiver's reach within a second or so, wherever it stood; see
``Queue.check_missed`` for how late it may be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple
from uuid import UUID

SECOND = 1000
REDELIVERED, FRESH = 0, 1
EXHAUSTED = "MaxDeliveryCountExceeded"


class Place(NamedTuple):
    """Where a message stands; the smallest is received first."""

    priority: int
    lane: int
    order: float


@dataclass
class Message:
    """A message somewhere in the queue, or among the dead letters."""

    number: int
    body: object
    place: Place
    placed_at: int
    placed_by: Transaction | None = None
    delivery_count: int = 0
    properties: dict[str, object] = field(default_factory=dict)
    token: UUID | None = None
    locked_until: int | None = None
    due: int | None = None
    reason: str | None = None
    is_gone: bool = False
    is_displaced: bool = False
    holder: Transaction | None = None
    held_since_receive: int = 0
    misses: list[int] = field(default_factory=list)

    @property
    def priority(self) -> int:
        return self.place.priority

    def is_available(self, now: int) -> bool:
        """Whether it may be received: it is there, and not locked, or not any more."""
        if self.is_gone or self.reason is not None:
            return False
        return (self.locked_until is None or self.locked_until <= now) and (self.due is None or self.due <= now)

    @property
    def is_in_place(self) -> bool:
        """Whether it certainly stands at its place, for everybody to see."""
        return self.locked_until is None and self.due is None and not self.is_displaced

    @property
    def earliest(self) -> Place:
        return self.place if self.is_in_place else Place(self.priority, REDELIVERED, -inf)

    @property
    def latest(self) -> Place:
        if self.is_in_place or self.place.lane == FRESH:
            return self.place
        return Place(self.priority, REDELIVERED, inf)


@dataclass(eq=False)
class Transaction:
    """An open transaction: how the messages were that it has touched, at each of its savepoints."""

    levels: list[dict[int, Message | None]] = field(default_factory=lambda: [{}])
    is_broken: bool = False

    def before(self, number: int) -> Message | None:
        """The message as all others see it, who do not see what this transaction does."""
        return next(level[number] for level in self.levels if number in level)


class Queue:
    """The queue. A verb without a transaction has one of its own."""

    def __init__(self, max_delivery_count: int, now: int) -> None:
        self.max_delivery_count = max_delivery_count
        self.messages: dict[int, Message] = {}
        self.now = now
        self.receives: list[int] = []
        self.sweeps: list[int] = []
        self.is_crowded = False
        self._order = 0

    # Sending and settling

    def send(self, number: int, body: object, priority: int, within: Transaction | None = None) -> None:
        self._order += 1
        message = Message(number, body, Place(priority, FRESH, self._order), self.now, within, holder=within)
        self.messages[number] = message
        if within is not None:
            within.levels[-1][number] = None

    def seen(self, number: int, within: Transaction | None = None) -> Message | None:
        """The message as a transaction sees it, or everybody else."""
        message = self.messages.get(number)
        if message is not None and message.holder not in (None, within):
            message = message.holder.before(number)
        return None if message is None or message.is_gone else message

    def is_held_from(self, number: int, within: Transaction | None = None) -> bool:
        """Whether another transaction holds it, so that who wants to settle it has to wait."""
        message = self.messages.get(number)
        return message is not None and message.holder not in (None, within)

    def free(self, numbers: Iterable[int], within: Transaction | None = None) -> list[int]:
        """Those that wait, are scheduled, or whose lock has run out, and that no other transaction holds."""
        seen = {number: self.seen(number, within) for number in numbers if not self.is_held_from(number, within)}
        return sorted(
            number
            for number, message in seen.items()
            if message is not None
            and message.reason is None
            and (message.locked_until is None or message.locked_until <= self.now)
        )

    def proves(self, number: int, token: UUID, within: Transaction | None = None) -> bool:
        """Whether this token is that of the message's lock: until the message is received again or settled."""
        message = self.seen(number, within)
        return message is not None and message.token == token

    def complete(self, numbers: Iterable[int], within: Transaction | None = None) -> None:
        for message in self.hold(numbers, within):
            message.is_gone = True
            if within is None:
                del self.messages[message.number]

    def abandon(
        self, delay: int, properties: dict[str, object], numbers: Iterable[int], within: Transaction | None = None
    ) -> None:
        """Given back at the same time, they come back in the order they were sent; the last delivery is final."""
        for message in self.hold(sorted(numbers), within):
            message.properties = {**message.properties, **properties}
            if message.delivery_count >= self.max_delivery_count:
                self._bury(message, EXHAUSTED)
                continue
            self._put_back(message, within)
            if delay:
                message.due = self.now + delay

    def release(self, numbers: Iterable[int], within: Transaction | None = None) -> None:
        for message in self.hold(sorted(numbers), within):
            message.delivery_count -= 1
            self._put_back(message, within)

    def dead_letter(self, reason: str, numbers: Iterable[int], within: Transaction | None = None) -> None:
        for message in self.hold(numbers, within):
            self._bury(message, reason)

    def renew(self, number: int, until: int) -> None:
        """A message that an open transaction holds needs no renewal, and gets none."""
        message = self.messages[number]
        if message.holder is None:
            message.locked_until, message.misses = until, []

    def resubmit(self, limit: int | None) -> list[int]:
        numbers = sorted(n for n, message in self.messages.items() if message.reason and not message.holder)[:limit]
        for number in numbers:
            message = self.messages[number]
            message.reason = None
            message.delivery_count = 0
            self._put_back(message, None)
        return numbers

    def cancel(self, number: int, reason: str | None) -> bool:
        """It can be settled no more, not by its holder either; a transaction that holds it decides about it."""
        message = self.seen(number)
        if message is None or message.reason is not None or self.is_held_from(number):
            return False
        if reason is None:
            self.complete([number])
        else:
            self.dead_letter(reason, [number])
        return True

    def move_and_return(self, numbers: Iterable[int], within: Transaction | None = None) -> None:
        """They keep their deliveries and times; those that wait come back in the order they were sent."""
        for message in self.hold(numbers, within):
            if message.due is None:
                self._put_back(message, within)

    def purge(self) -> int:
        purged = [number for number, message in self.messages.items() if message.reason is None and not message.holder]
        for number in purged:
            del self.messages[number]
        return len(purged)

    @staticmethod
    def _bury(message: Message, reason: str) -> None:
        message.reason = reason
        message.token = message.locked_until = message.due = None

    def _put_back(self, message: Message, within: Transaction | None) -> None:
        self._order += 1
        message.place = Place(message.priority, REDELIVERED, self._order)
        message.placed_at, message.placed_by = self.now, within
        message.token = message.locked_until = message.due = None
        message.is_displaced, message.misses = False, []

    # Receiving

    def receivable(self, within: Transaction | None = None) -> list[Message]:
        """The messages that a receive may return; those that an open transaction holds, only that transaction may."""
        return [
            message
            for message in self.messages.values()
            if message.is_available(self.now) and message.holder in (None, within)
        ]

    def check_received(
        self, returned: Sequence[int], buried: Collection[int], at_most: int, within: Transaction | None = None
    ) -> None:
        """Whether a receive may return these, in this order, and dead-letter those."""
        receivable = {message.number: message for message in self.receivable(within)}
        assert receivable.keys() >= {*returned, *buried}, (
            f"not receivable: {({*returned, *buried}) - receivable.keys()}"
        )
        assert len(returned) <= at_most
        over = {number for number, message in receivable.items() if message.delivery_count >= self.max_delivery_count}
        assert not over & set(returned), "delivered too often"
        assert over >= set(buried), "dead-lettered too early"

        met = {*returned, *buried}
        in_place = sorted((m for m in receivable.values() if m.is_in_place), key=lambda message: message.place)
        passed_over = [message.number for message in in_place if message.number not in met]
        if len(returned) < at_most:
            assert not passed_over, f"there was room for {passed_over}"
        elif passed_over:
            next_place = self.messages[passed_over[0]].place
            overtaken = [m.number for m in in_place if m.number in met and m.place > next_place]
            assert not overtaken, f"{passed_over[0]} comes before {overtaken}"
        self._check_order([receivable[number] for number in returned])

    def _check_order(self, returned: Sequence[Message]) -> None:
        """Whether each may stand behind the one before."""
        reached = Place(-1000, REDELIVERED, -inf)
        for message in returned:
            assert message.latest >= reached, f"{message.number} comes too late in {[m.number for m in returned]}"
            reached = max(reached, message.earliest)

    def check_missed(self, met: Collection[int], *, is_empty: bool, within: Transaction | None = None) -> None:
        """Whether a receive with room for more may have missed what is not in its place.

        A receive that returns nothing takes a turn, as does each receiver once a second. A turn brings back what is
        due; what it examines in vain, it examines again a second later. Where numbers are drawn fast (``is_crowded``),
        a session may have overtaken what the common cursor has still to pass, which takes another turn a second later.
        """
        patience = 2 * SECOND if self.is_crowded else SECOND
        looks = self.receives + self.sweeps
        is_quiet = not self.is_crowded and not any(time > self.now - SECOND for time in looks)
        for message in self.receivable(within):
            if message.number in met or message.is_in_place:
                continue
            assert not (is_empty and is_quiet), (
                f"{message.number} was missed though no receive or sweep ran for a second"
            )
            assert not (is_empty and message.misses and self.now - message.misses[0] >= patience), (
                f"{message.number} is available and was missed at {message.misses}, now is {self.now}"
            )
            if not message.misses or self.now - message.misses[-1] >= 1.5 * SECOND:
                message.misses.append(self.now)
            assert len(message.misses) <= 4, f"{message.number} was missed at {message.misses}"

    def take(self, number: int, token: UUID, until: int) -> None:
        message = self.messages[number]
        message.delivery_count += 1
        message.token, message.locked_until, message.due = token, until, None
        message.misses = []

    # Transactions

    def hold(self, numbers: Iterable[int], within: Transaction | None) -> list[Message]:
        """The messages, to be changed; a transaction keeps others from them until it ends."""
        messages = [self.messages[number] for number in numbers]
        for message in messages:
            if within is not None:
                within.levels[-1].setdefault(message.number, copy(message))
                if message.holder is None:
                    message.holder, message.held_since_receive = within, len(self.receives)
        return messages

    def set_savepoint(self, transaction: Transaction) -> None:
        transaction.levels.append({})

    def release_savepoint(self, transaction: Transaction) -> None:
        released = transaction.levels.pop()
        transaction.levels[-1] = {**released, **transaction.levels[-1]}

    def roll_back(self, transaction: Transaction, savepoint: int = 0) -> None:
        """Undoes all, or what was done since a savepoint, which stays."""
        while len(transaction.levels) > savepoint:
            for number, before in transaction.levels.pop().items():
                self._restore(number, before)
        if savepoint:
            transaction.levels.append({})
        transaction.is_broken = False

    def fail(self, transaction: Transaction) -> None:
        """An error undoes at once what was done since the last savepoint; the transaction can only be rolled back."""
        for number, before in transaction.levels[-1].items():
            self._restore(number, before)
        transaction.levels[-1] = {}
        transaction.is_broken = True

    def commit(self, transaction: Transaction) -> None:
        for number in {number for level in transaction.levels for number in level}:
            message = self.messages[number]
            message.holder = None
            if message.placed_by is transaction:
                message.is_displaced = self.now - message.placed_at >= SECOND
                message.placed_by = None
            if message.is_gone:
                del self.messages[number]

    def _restore(self, number: int, before: Message | None) -> None:
        """Restores it as it was; but a receive in the meantime has passed over it."""
        held = self.messages.pop(number)
        if before is not None:
            self.messages[number] = before
            if before.holder is None and len(self.receives) > held.held_since_receive:
                before.is_displaced = True
