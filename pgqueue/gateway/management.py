"""The operations that clients ask of a queue by requests. See the AMQP request/response operations of Service Bus."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from pgqueue import Message, SessionProperties
from pgqueue.aio import Queue, Session
from pgqueue.errors import LockLostError, SessionLockLostError
from pgqueue.gateway import rules
from pgqueue.gateway.amqp import types
from pgqueue.gateway.amqp.performatives import Accepted, Error, Modified, Rejected
from pgqueue.gateway.amqp.types import Symbol
from pgqueue.gateway.conditions import ARGUMENT, Refusal
from pgqueue.gateway.messages import encoded, message_of
from pgqueue.gateway.receiving import Held, kind_of, settle, tag_of

if TYPE_CHECKING:
    from pgqueue.gateway.clients import RoleClient
    from pgqueue.gateway.connection import Connection
    from pgqueue.gateway.gateway import Gateway
    from pgqueue.gateway.requests import Request

T = TypeVar("T")

#: The most messages that one request gets.
MOST = 1000

DELETES = 0

#: The time that asks for all sessions: the year 10000.
EVER = 253_402_300_800_000


@dataclass(frozen=True)
class Place:
    """The queue that a request is about, with the rights of a role, at a gateway."""

    client: RoleClient
    entity: str
    connection: Connection

    @property
    def gateway(self) -> Gateway:
        """The gateway."""
        return self.connection.gateway

    @property
    def queue(self) -> Queue:
        """The queue."""
        return self.client.client.queue(self.entity)

    def session(self, request: Request) -> Session:
        """The session that the client has accepted. Raises SessionLockLostError."""
        session_id = request.argument("session-id", str)
        accepted = self.connection.accepted.get((self.entity, session_id))
        if accepted is None:
            raise SessionLockLostError(f"the session {session_id!r} of {self.entity} is not held by this connection")
        return accepted

    def held(self, tokens: Iterable[UUID]) -> list[Held]:
        """The messages with these tokens, of this queue. Raises LockLostError."""
        found = [self.gateway.held.get(token) for token in tokens]
        held = [one for one in found if one is not None and one.received.queue == self.entity]
        if len(held) < len(found):
            raise LockLostError(f"a lock is lost: no message of {self.entity} is held at this gateway with this token")
        return held


async def peek(place: Place, request: Request) -> Any:
    """Show messages, of a session if one is named."""
    most = min(request.argument("message-count", int), MOST)
    first = max(request.argument("from-sequence-number", int, 0), 0)
    if request.argument("session-id", str, None) is None:
        found = await place.queue.peek(max_messages=most, from_sequence_number=first)
    else:
        found = await place.session(request).peek(max_messages=most, from_sequence_number=first)
    shown, size = [], 0
    for message in found:
        shown.append({"message": encoded(message)})
        size += len(message.raw_body)
        if size > place.gateway.settings.max_message_size:
            break
    return {"messages": shown} if shown else None


async def renew_lock(place: Place, request: Request) -> Any:
    """Renew locks of messages; the error is that of the first that is lost."""
    received = [held.received for held in place.held(_tokens(request))]
    results = await place.queue.renew_lock_batch(received)
    for result in results:
        if result.error is not None:
            raise result.error
    return {"expirations": types.array("timestamp", [result.locked_until for result in results])}


async def renew_session_lock(place: Place, request: Request) -> Any:
    """Renew the lock of a session."""
    return {"expiration": await place.session(request).renew_lock()}


async def schedule(place: Place, request: Request) -> Any:
    """Store messages for later; returns their numbers, with which they can be cancelled."""
    messages = [_scheduled(given, place) for given in request.argument("messages", list)]
    outbox = await place.client.outbox(place.entity)
    sent: Any = await outbox.entity.send_batch(messages)
    return {"sequence-numbers": types.array("long", [getattr(one, "sequence_number", one) for one in sent])}


async def cancel_scheduled(place: Place, request: Request) -> Any:
    """Cancel what is scheduled."""
    outbox = await place.client.outbox(place.entity)
    await outbox.entity.cancel_scheduled(_numbers(request))
    return {}


async def receive_deferred(place: Place, request: Request) -> Any:
    """Receive messages that were deferred, by their numbers."""
    numbers = _numbers(request)
    accepted = None if request.argument("session-id", str, None) is None else place.session(request)
    received = await (accepted or place.queue).receive_deferred(numbers)
    if deletes := request.argument("receiver-settle-mode", int, 1) == DELETES:
        errors = await settle(place.queue, ("complete",), received, None)
        received = [message for message, error in zip(received, errors, strict=True) if error is None]
    else:
        for message in received:
            place.gateway.hold(message, accepted)
    tags = [tag_of(message) for message in received]
    answers = [
        {"lock-token": tag, "message": encoded(message, None if deletes else tag)}
        for message, tag in zip(received, tags, strict=True)
    ]
    return {"messages": answers} if answers else None


async def update_disposition(place: Place, request: Request) -> Any:
    """Settle messages by their tokens."""
    state = _state(request)
    properties = request.argument("properties-to-modify", dict, None)
    held = place.held(_tokens(request))
    for error in await settle(place.queue, kind_of(state, properties), [one.received for one in held], properties):
        if error is not None:
            raise error
    for one in held:
        place.gateway.settled(one)
    return {}


async def get_session_state(place: Place, request: Request) -> Any:
    """The state of a session: bytes, or JSON as text."""
    state = await place.session(request).get_state()
    return {"session-state": state if state is None or isinstance(state, bytes) else rules.json_bytes(state)}


async def set_session_state(place: Place, request: Request) -> Any:
    """Set the state of a session."""
    await place.session(request).set_state(request.argument("session-state", bytes, None))
    return {}


async def get_message_sessions(place: Place, request: Request) -> Any:
    """List the sessions that have messages or state, or those whose state was set after a time."""
    skip, top = max(request.argument("skip", int, 0), 0), request.argument("top", int, MOST)
    after = request.argument("last-updated-time", types.Timestamp, EVER)
    await place.queue.peek()  # there is such a queue, and the role may see what is in it
    found = [known.session_id for known in await place.queue.list_sessions() if _is_listed(known, after)]
    chosen = sorted(found)[skip : skip + top]
    return {"skip": types.int_(skip), "sessions-ids": types.array("string", chosen)} if chosen else None


async def delete_messages(place: Place, request: Request) -> Any:
    """Delete messages that were sent before a time, except those that are locked."""
    most = min(request.argument("message-count", int), 4000)
    before = request.argument("enqueued-time-utc", types.Timestamp, None)
    try:
        until = None if before is None else before.as_datetime()
    except OverflowError:
        raise Refusal(ARGUMENT, "enqueued-time-utc is in a year that does not exist") from None
    deleted = await (
        place.queue.delete_matching(max_messages=most) if until is None else _delete_until(place, until, most)
    )
    return {"message-count": types.int_(deleted)}


async def _delete_until(place: Place, until: datetime, most: int) -> int:
    """Delete messages by their numbers: the age that the time stands for grows until the database deletes by it."""
    age = max(await place.gateway.clock() - until, timedelta(0))
    deleted = after = 0
    while True:
        wanted = most - deleted
        found = await place.queue.find_messages(older_than=age, after=after, max_messages=wanted)
        deleted += await place.queue.delete_messages(
            [one.sequence_number for one in found if one.enqueued_time <= until]
        )
        if len(found) < wanted or deleted == most:
            return deleted
        after = found[-1].sequence_number


async def add_rule(place: Place, request: Request) -> Any:
    """Add a rule to a subscription."""
    topic, subscription = rules.names_of(place.entity)
    filter, properties = rules.from_map(request.argument("rule-description", dict))
    name = request.argument("rule-name", str)
    await place.client.client.create_rule(topic, subscription, name, filter=filter, set_properties=properties)
    return {}


async def remove_rule(place: Place, request: Request) -> Any:
    """Remove a rule of a subscription."""
    await place.client.client.delete_rule(*rules.names_of(place.entity), request.argument("rule-name", str))
    return {}


async def enumerate_rules(place: Place, request: Request) -> Any:
    """List the rules of a subscription."""
    skip, top = max(request.argument("skip", int, 0), 0), request.argument("top", int, MOST)
    found = await place.client.client.list_rules(*rules.names_of(place.entity))
    chosen = found[skip : skip + top]
    return {"rules": [{"rule-description": rules.as_described(rule)} for rule in chosen]} if chosen else None


#: By the names that SDKs send.
OPERATIONS: dict[str, Callable[[Place, Request], Awaitable[Any]]] = {
    f"com.microsoft:{name}": operation
    for name, operation in {
        "peek-message": peek,
        "renew-lock": renew_lock,
        "renew-session-lock": renew_session_lock,
        "schedule-message": schedule,
        "cancel-scheduled-message": cancel_scheduled,
        "receive-by-sequence-number": receive_deferred,
        "update-disposition": update_disposition,
        "get-session-state": get_session_state,
        "set-session-state": set_session_state,
        "get-message-sessions": get_message_sessions,
        "batch-delete-messages": delete_messages,
        "add-rule": add_rule,
        "remove-rule": remove_rule,
        "enumerate-rules": enumerate_rules,
    }.items()
}


def _is_listed(known: SessionProperties, after: int) -> bool:
    if after >= EVER:
        return bool(known.messages or known.state_size)
    return known.state_set_at is not None and (known.state_set_at - types.EPOCH) / types.MILLISECOND > after


def _tokens(request: Request) -> list[UUID]:
    return _list(request, "lock-tokens", UUID)


def _numbers(request: Request) -> list[int]:
    return _list(request, "sequence-numbers", int)


def _list(request: Request, name: str, kind: type[T]) -> list[T]:
    values: list[T] = request.argument(name, list)
    if not all(type(value) is kind for value in values):
        raise Refusal(ARGUMENT, f"{name} are of the type {kind.__name__}")
    return values


def _scheduled(given: Any, place: Place) -> Message:
    raw = given.get("message") if isinstance(given, dict) else None
    if not isinstance(raw, bytes):
        raise Refusal(ARGUMENT, "each of the messages to schedule is a map with its bytes, as message")
    message = message_of(raw, json_bodies=place.gateway.settings.json_bodies)
    if message.scheduled_enqueue_time is None:
        raise Refusal(ARGUMENT, "a message to schedule has the annotation x-opt-scheduled-enqueue-time")
    return message


def _state(request: Request) -> Any:
    match request.argument("disposition-status", str):
        case "completed":
            return Accepted()
        case "abandoned":
            return Modified()
        case "defered":
            return Modified(undeliverable_here=True)
        case "suspended":
            reason = request.argument("deadletter-reason", str, "")
            return Rejected(Error(Symbol(reason), request.argument("deadletter-description", str, None), {}))
    raise Refusal(ARGUMENT, "the disposition-status is one of completed, abandoned, defered and suspended")
