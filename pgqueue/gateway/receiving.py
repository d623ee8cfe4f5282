"""Links on which clients receive, the messages that they hold, and how these are settled."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pgqueue.aio import Queue, ReceivedMessage, ReceiveState, Session
from pgqueue.errors import LockLostError, PGQueueError, SessionLockLostError
from pgqueue.gateway import conditions
from pgqueue.gateway.amqp import types
from pgqueue.gateway.amqp.composite import SENDER, SETTLED_BY_SENDER, part_of
from pgqueue.gateway.amqp.performatives import (
    Accepted,
    Attach,
    Disposition,
    Modified,
    Rejected,
    Released,
    Source,
    TransactionalState,
)
from pgqueue.gateway.amqp.types import Described, Symbol
from pgqueue.gateway.coalescing import Coalescer
from pgqueue.gateway.conditions import Refusal, error_of
from pgqueue.gateway.entities import DEAD_LETTERS, TRANSFER
from pgqueue.gateway.links import OutgoingLink, symbols
from pgqueue.gateway.messages import DESCRIPTION, REASON, encoded, ticks
from pgqueue.gateway.sending import transaction_of

if TYPE_CHECKING:
    from pgqueue.gateway.session import Session as LinkSession

logger = logging.getLogger("pgqueue.gateway")

SESSION_FILTER, LOCKED_UNTIL, WAIT = (
    "com.microsoft:session-filter", "com.microsoft:locked-until-utc", "com.microsoft:timeout",
)  # fmt: skip

#: How long one call waits for messages. While it waits it costs nothing: it is woken.
WAITS = timedelta(minutes=1)

#: How long a client waits for the next session: by default, and at the most; how long one call does: the client may go.
NEXT_SESSION_WAITS, LONGEST, SLICE = timedelta(seconds=60), timedelta(hours=1), timedelta(seconds=1)

#: At most so many messages are claimed at once, and about so many bytes: what was claimed is held in memory.
MOST, MOST_BYTES = 200, 4 * 1024 * 1024
FIRST_GUESS = 64 * 1024

#: How long a session is kept for settlements that are not made yet, in seconds, after its link has gone.
SETTLES = 30.0

#: How long a feed waits after a transient error, in seconds, and after how many the next one counts as lasting.
PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)


#: The states with which a client settles a message.
TERMINAL = (Accepted, Rejected, Released, Modified)


def tag_of(received: ReceivedMessage) -> UUID:
    """The token of a delivery. Messages of one receive share a lock token; on a link each needs one of its own."""
    return UUID(int=received.lock_token.int ^ received.sequence_number)


@dataclass(eq=False, slots=True)
class Held:
    """A message that a client has received and not settled."""

    received: ReceivedMessage
    link: ReceivingLink | None
    accepted: Session | None
    delivery_id: int = -1
    is_settling: bool = False

    @property
    def locked_until(self) -> datetime | None:
        """When its lock ends: that of a session is renewed for all of its messages."""
        until = self.received.locked_until
        return until if self.accepted is None or until is None else max(until, self.accepted.locked_until)


@dataclass(slots=True)
class Settlement:
    """How to settle a message, and a function to call with the outcome. Those of one ``kind`` are made in one call."""

    held: Held
    kind: tuple[Any, ...]
    properties: dict[str, Any] | None
    done: Callable[[Exception | None], None]


def kind_of(state: Any, properties: dict[str, Any] | None) -> tuple[Any, ...]:
    """The kind of a settlement. Those of one kind are made in one call."""
    match state:
        case Rejected(error):
            return "dead-letter", *_reasons(error), repr(properties)
        case Modified(undeliverable_here=True):
            return "defer", repr(properties)
        case Modified():
            return "abandon", repr(properties)
        case Released():
            return ("release",)
    return ("complete",)


def properties_of(state: Any) -> dict[str, Any] | None:
    """The application properties that a client sets when it settles a message."""
    match state:
        case Rejected(error):
            _, info = _described(error)
            given = {key: value for key, value in info.items() if key not in (REASON, DESCRIPTION)}
        case Modified():
            given = state.message_annotations or {}
        case _:
            return None
    return {str(key): value for key, value in given.items()} or None


def _reasons(error: Any) -> tuple[str, str | None]:
    """Why a message is dead-lettered, from the error of a rejection."""
    described, info = _described(error)
    reason = info.get(REASON) or getattr(described, "condition", None) or "Rejected"
    description = info.get(DESCRIPTION) or getattr(described, "description", None)
    return str(reason), None if description is None else str(description)


def _described(error: Any) -> tuple[Any, dict[Any, Any]]:
    """The error of a rejection, and its info."""
    described = part_of(error) if isinstance(error, Described) else error
    return described, getattr(described, "info", None) or {}


class Settler:
    """Settles the messages of a queue, those of one kind in one call."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.calls = Coalescer(self._settle)

    async def _settle(self, settlements: list[Settlement]) -> None:
        by_kind: dict[tuple[Any, ...], list[Settlement]] = {}
        for settlement in settlements:
            by_kind.setdefault(settlement.kind, []).append(settlement)
        for kind, same in by_kind.items():
            for settlement, error in zip(same, await self._outcomes(kind, same), strict=True):
                settlement.done(error)

    async def _outcomes(self, kind: tuple[Any, ...], same: Sequence[Settlement]) -> list[Exception | None]:
        received = [settlement.held.received for settlement in same]
        for pause in (*PAUSES, None):
            try:
                return await settle(self._queue, kind, received, same[0].properties)
            except PGQueueError as error:
                if pause is None or (not error.is_transient and len(same) == 1):
                    return [error] * len(same)
                if not error.is_transient:  # of one of them
                    return [(await self._outcomes(kind, [settlement]))[0] for settlement in same]
                await asyncio.sleep(pause)
        raise AssertionError


async def settle(
    queue: Queue,
    kind: tuple[Any, ...],
    received: Sequence[ReceivedMessage],
    properties: dict[str, Any] | None,
    transaction: Any = None,
) -> list[Exception | None]:
    """Settle messages in the same way; returns an error for each that could not be settled."""
    match kind:
        case ("complete",):
            results = await queue.complete_batch(received, transaction=transaction)
        case ("release",):
            return [await _released(message, transaction) for message in received]
        case ("abandon", _):
            results = await queue.abandon_batch(received, properties=properties, transaction=transaction)
        case ("defer", _):
            results = await queue.defer_batch(received, properties=properties, transaction=transaction)
        case _:
            _, reason, description, _ = kind
            results = await queue.dead_letter_batch(
                received, reason=reason, description=description, properties=properties, transaction=transaction
            )
    return [result.error for result in results]


async def _released(received: ReceivedMessage, transaction: Any = None) -> Exception | None:
    try:
        await received.postpone(timedelta(0), transaction=transaction)
    except PGQueueError as error:
        return error
    return None


async def _deleted(queue: Queue, received: Sequence[ReceivedMessage]) -> set[int]:
    """Delete messages that are sent settled; returns the numbers of those deleted. Tries again where that may help."""
    doubtful: set[int] = set()
    for pause in (*PAUSES, None):
        try:
            await queue.complete_batch(received)
            break
        except PGQueueError as error:
            doubtful |= {message.sequence_number for message in received if message.context.is_in_doubt}
            if pause is None or not error.is_transient:
                raise
            await asyncio.sleep(pause)
    return {
        message.sequence_number
        for message in received
        if message.state is ReceiveState.COMPLETED
        # a message that is gone after a call that was interrupted was deleted by it
        or (message.state is ReceiveState.FAULTED and message.sequence_number in doubtful)
    }


class Feed:
    """The messages of a queue, for all links of a role: one waits for all of them, and each gets its turn."""

    def __init__(self, queue: Queue, *, deletes: bool) -> None:
        self.queue = queue
        self._deletes = deletes
        self._links: deque[ReceivingLink] = deque()
        #: Held while messages are deleted for links: until they are sent, nothing else may use the room or the credit.
        self.deleting = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._failures = 0
        self._size = FIRST_GUESS

    def add(self, link: ReceivingLink) -> None:
        """Give messages to a link, too."""
        self._links.append(link)

    def remove(self, link: ReceivingLink) -> None:
        """Give a link no more messages."""
        with suppress(ValueError):
            self._links.remove(link)

    def wake(self) -> None:
        """A link has room for messages."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def poll(self, link: ReceivingLink) -> None:
        """Give a link the messages that are there now: it does not wait for others."""
        while wanted := self._limited(link.wants):
            received = await self.claim(wanted, None)
            await self._hand_out(received, first=link)
            if len(received) < wanted:
                return

    async def claim(self, most: int, wait: timedelta | None) -> Sequence[ReceivedMessage]:
        """Receive messages, those that are to be deleted as well: so none is lost that no link has room for."""
        received = await self.queue.receive(max_messages=most, wait=wait)
        if received:
            self._size = sum(len(message.raw_body) for message in received) // len(received)
        return received

    def _limited(self, wanted: int) -> int:
        """How many to claim, by the size of those that came last."""
        return min(wanted, MOST, max(MOST_BYTES // max(self._size, 1), 1))

    async def stop(self) -> None:
        """Receive no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        while wanted := self._limited(sum(link.wants for link in self._links)):
            try:
                await self._hand_out(await self.claim(wanted, WAITS))
                self._failures = 0
            except PGQueueError as error:
                await self._failed(error)

    async def _failed(self, error: PGQueueError) -> None:
        """Try again later if that may help; otherwise the links are refused."""
        self._failures += 1
        if error.is_transient:
            await asyncio.sleep(PAUSES[min(self._failures, len(PAUSES)) - 1])
            return
        for link in list(self._links):
            link.detach(error_of(error))

    async def _hand_out(self, received: Sequence[ReceivedMessage], first: ReceivingLink | None = None) -> None:
        """Give each message to the next link that has room; release the others, uncounted."""
        left = deque(received)
        if self._deletes:
            async with self.deleting:
                await self._delete(left, first)
            return
        while left and first is not None and first.wants:
            first.deliver(left.popleft())
        while left and (wanting := [link for link in self._links if link.wants]):
            self._links.rotate(-1)
            for link in wanting[: len(left)]:
                link.deliver(left.popleft())
        for message in left:
            await _released(message)

    async def _delete(self, left: deque[ReceivedMessage], first: ReceivingLink | None) -> None:
        """Delete and send the messages that there is room for; release the others, uncounted.

        A deleted message is sent to the link that had room for it before, whether the client keeps up now or not.
        """
        planned = self._planned(left, first)
        for message in left:
            await _released(message)
        deleted = await _deleted(self.queue, [message for message, _ in planned])
        for message, link in planned:
            if message.sequence_number in deleted:
                self._send(message, link)

    def _planned(
        self, left: deque[ReceivedMessage], first: ReceivingLink | None
    ) -> list[tuple[ReceivedMessage, ReceivingLink]]:
        """Take the messages that there is room for, each with its link, and about :data:`MOST_BYTES` at the most."""
        room = {link: link.wants for link in self._links}
        planned: list[tuple[ReceivedMessage, ReceivingLink]] = []
        size = 0
        while left and size < MOST_BYTES:
            if first is not None and room.get(first):
                link = first
            elif (found := next((one for one in self._links if room[one]), None)) is not None:
                link = found
                self._links.remove(link)
                self._links.append(link)
            else:
                break
            room[link] -= 1
            size += len(left[0].raw_body)
            planned.append((left.popleft(), link))
        return planned

    def _send(self, message: ReceivedMessage, link: ReceivingLink) -> None:
        """Send a deleted message to its link, or to another one that has credit if that has gone."""
        if link in self._links:
            link.deliver(message)
        elif (other := next((one for one in self._links if one.credit), None)) is not None:
            other.deliver(message)
        else:
            logger.info(
                "message %s of %s was deleted for a client that has gone", message.sequence_number, link.address
            )


class ReceivingLink(OutgoingLink):
    """A link on which a client receives from a queue or a subscription, from its dead letters, or from a session."""

    def __init__(self, session: LinkSession, attach: Attach, address: str, source: Source | None) -> None:
        super().__init__(session, attach, address)
        self._source = source or Source()
        self._deletes = attach.snd_settle_mode == SETTLED_BY_SENDER
        self._feed: Feed | None = None
        self._accepted: Session | None = None
        self._is_waiting = False
        self._unsettled: dict[int, Held] = {}
        self._settling = 0
        self._has_settled = asyncio.Event()

    async def open(self) -> None:
        """Find the queue, and lock the session that the client asks for."""
        connection = self.session.connection
        grant = connection.grant_for(self.address)
        self.role_name = grant.key.role
        self.client = await connection.gateway.client_of(grant.key.role)
        if self.address.endswith(TRANSFER):
            raise Refusal(conditions.NOT_FOUND, "there is no queue for messages that could not be forwarded: they stay")
        known = await self.client.client.get_queue(self.address.removesuffix(DEAD_LETTERS))
        if not self.session.holds(self):
            return
        filters = {str(key): value for key, value in (self._source.filter or {}).items()}
        if SESSION_FILTER not in filters:
            if known.requires_session and not self.address.endswith(DEAD_LETTERS):
                raise Refusal(conditions.NOT_ALLOWED, f"{self.address} requires sessions: accept one of them")
            self._feed = self.client.feed(self.address, deletes=self._deletes)
            self._feed.add(self)
            self.answer()
        else:
            # not cancelled with the connection: a session that is accepted meanwhile is given back
            await asyncio.shield(connection.gateway.spawn(self._accept(filters[SESSION_FILTER]), waits=True))
        self.credited()

    async def _accept(self, wanted: Any) -> None:
        value = wanted.value if isinstance(wanted, Described) else wanted
        session_id = None if value is None else str(value)
        properties = {str(key): given for key, given in (self.attach.properties or {}).items()}
        limit = properties.get(WAIT)
        longest = LONGEST // types.MILLISECOND
        wait = min(max(limit, 0), longest) * types.MILLISECOND if isinstance(limit, int) else NEXT_SESSION_WAITS
        queue = self.client.client.queue(self.address)
        accepted = await (self._next(queue, wait) if session_id is None else queue.accept_session(session_id))
        if accepted is None:
            raise Refusal(conditions.TIMEOUT, f"no session of {self.address} is available")
        if not self.session.holds(self):
            await accepted.release()
            return
        self._accepted = accepted
        self.session.connection.accepted[self.address, accepted.session_id] = accepted
        self._source.filter = {Symbol(SESSION_FILTER): accepted.session_id}
        self.answer(source=self._source, properties=symbols({LOCKED_UNTIL: ticks(accepted.locked_until)}))

    async def _next(self, queue: Queue, wait: timedelta) -> Session | None:
        """Accept the next session: one that is there now, or comes while the link lasts."""
        ends_at = time.monotonic() + wait.total_seconds()
        accepted = await queue.accept_session()
        while accepted is None and self.session.holds(self) and (left := ends_at - time.monotonic()) > 0:
            accepted = await queue.accept_session(wait=min(timedelta(seconds=left), SLICE))
        return accepted

    # -- messages ------------------------------------------------------------------------------------------------------

    @property
    def wants(self) -> int:
        """How many messages it has room for."""
        if self.session.connection.is_congested or self.session.is_congested:
            return 0
        return self.credit if self.is_attached and self.session.holds(self) else 0

    def credited(self) -> None:
        """Get messages for the credit."""
        connection = self.session.connection
        if self._accepted is not None and self.credit and not self._is_waiting:
            self._is_waiting = True
            connection.spawn(self._receive_from(self._accepted))
        elif self._feed is not None and self.drains:
            connection.gateway.spawn(self._drain(self._feed))
        elif self._feed is not None and self.credit:
            self._feed.wake()
        elif self._accepted is not None and not self.credit:
            self.drained()

    async def _drain(self, feed: Feed) -> None:
        try:
            await feed.poll(self)
        except PGQueueError as error:
            if not error.is_transient:
                self.detach(error_of(error))
                return
        async with feed.deleting:  # the link keeps its credit until deleted messages are sent
            self.drained()

    async def _receive_from(self, accepted: Session) -> None:
        """Receive from the session, as long as there is credit."""
        try:
            while self.session.holds(self) and self.wants:
                wait = timedelta(0) if self.drains else timedelta(seconds=1)
                received = await accepted.receive(max_messages=min(self.wants, MOST), wait=wait)
                if self._deletes and received:
                    deleted = await _deleted(self.client.client.queue(self.address), received)
                    received = [message for message in received if message.sequence_number in deleted]
                if not self.session.holds(self):
                    return
                for message in received:
                    self.deliver(message)
                if not received:
                    self.drained()
            self.drained()
        except PGQueueError as error:
            if self.session.holds(self):
                self.detach(error_of(error))
        finally:
            self._is_waiting = False

    def deliver(self, message: ReceivedMessage) -> None:
        """Send a message to the client."""
        tag = None if self._deletes else tag_of(message)
        try:
            raw = encoded(message, tag)
        except Exception:  # others are not kept waiting by one: its lock expires, and it is dead-lettered some time
            logger.exception("message %s of %s cannot be sent", message.sequence_number, message.queue)
            return
        if tag is None:
            self.send(raw, b"", settled=True)
            return
        held = Held(message, self, self._accepted)
        self.session.connection.gateway.held[tag] = held
        held.delivery_id = self.send(raw, tag.bytes_le, settled=False)
        self._unsettled[held.delivery_id] = held

    # -- settling ------------------------------------------------------------------------------------------------------

    def disposed(self, delivery_id: int, disposition: Disposition, state: Any) -> None:
        """Settle a message, as the client has asked for."""
        held = self._unsettled.get(delivery_id)
        if held is None:
            self._answer_late(delivery_id, disposition)
            return
        if held.is_settling:
            return
        if isinstance(state, TransactionalState):
            self._settle_later(held, state)
            return
        if not isinstance(state, TERMINAL):
            return
        properties = properties_of(state)
        kind = kind_of(state, properties)
        held.is_settling = True
        self._settling += 1

        def done(error: Exception | None) -> None:
            self._settling -= 1
            if not self._settling:
                self._has_settled.set()
            self._done(held, state, error, is_told=bool(disposition.settled))

        self.client.settler(held.received.queue).calls.add(Settlement(held, kind, properties, done))

    def _answer_late(self, delivery_id: int, disposition: Disposition) -> None:
        """Answer for a message that is not held any more."""
        if disposition.settled:
            self.session.settled(delivery_id)
        else:
            error = LockLostError("the lock of this message is lost: it has expired, or the message was settled")
            self.session.dispose(SENDER, [delivery_id], Rejected(error_of(error)))

    def _settle_later(self, held: Held, state: TransactionalState) -> None:
        """Settle a message when the transaction of the client ends."""
        try:
            transaction = transaction_of(self.session.connection.transactions.get(state.txn_id))
            outcome = part_of(state.outcome) or Accepted()
            transaction.settle(held, outcome)
        except Refusal as refusal:
            self.session.dispose(SENDER, [held.delivery_id], Rejected(error_of(refusal)))
        else:  # clients wait for this before they discharge the transaction
            state = TransactionalState(state.txn_id, outcome)
            self.session.write(Disposition(SENDER, held.delivery_id, settled=False, state=state))

    def _done(self, held: Held, state: Any, error: Exception | None, *, is_told: bool) -> None:
        self.settled(held)
        if not self.session.holds(self):
            return
        if self._accepted is not None and isinstance(error, LockLostError):
            error = SessionLockLostError(f"the lock of session {self._accepted.session_id!r} is lost")
        if is_told:
            self.session.settled(held.delivery_id)
        else:
            # Without an error: some SDKs take one for a refusal of the settlement.
            echoed = Rejected() if isinstance(state, Rejected) else state
            self.session.dispose(SENDER, [held.delivery_id], echoed if error is None else Rejected(error_of(error)))

    def settled(self, held: Held) -> None:
        """Forget a message that was settled, or whose lock is lost."""
        self._unsettled.pop(held.delivery_id, None)
        self.session.connection.gateway.held.pop(tag_of(held.received), None)

    def closed(self) -> None:
        """Give the session back. Messages stay locked: the client may settle them by requests."""
        if self._feed is not None:
            self._feed.remove(self)
        if self._accepted is not None:
            connection = self.session.connection
            key = self.address, self._accepted.session_id
            if connection.accepted.get(key) is self._accepted:
                del connection.accepted[key]
            for held in list(self._unsettled.values()):
                self.settled(held)
            connection.gateway.spawn(self._release(self._accepted))

    async def _release(self, accepted: Session) -> None:
        """Give the session back, after what the client has settled: that needs its lock."""
        if self._settling:
            self._has_settled.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(SETTLES):
                    await self._has_settled.wait()
        try:
            await accepted.release()
        except LockLostError:
            return
        except PGQueueError as error:
            logger.info("session %s of %s expires by itself: %s", accepted.session_id, accepted.queue, error)
