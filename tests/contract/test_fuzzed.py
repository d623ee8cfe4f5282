"""Every public call, with values of any kind for its arguments: it does its work, or raises an error that names them.

A call is the text of an expression, so that one which breaks here can be put into `BROKE`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import pgqueue
from pgqueue import (
    AutoLockRenewer,
    CatchUp,
    CorrelationFilter,
    DeadLetter,
    Handlers,
    JsonPathFilter,
    Message,
    PGQueueError,
    Queue,
    QueueClient,
    ReceiveMode,
    RetryPolicy,
    SqlFilter,
    SubQueue,
    Tasks,
    Worker,
    deadline,
    process,
)
from pgqueue.model.columns import MESSAGE
from pgqueue.notifications import (
    Bridge,
    NotificationTypes,
    Pace,
    QueuedTransmitter,
    QueueNotification,
    ReceiptStatus,
    Transmitter,
)
from tests.contract.hostile import VALUES, Colour, Number, Text, Zoneless, deep, ring
from tests.contract.world import World
from tests.faces.test_promised_names import NOTIFICATIONS_PROMISED, OPTIONS, PROMISED

NAMES = {
    each.__name__: each
    for each in (
        AutoLockRenewer, CatchUp, Colour, CorrelationFilter, DeadLetter, Decimal, Handlers, JsonPathFilter, Message,
        Number,
        Path, Queue, QueueClient, ReceiveMode, RetryPolicy, SqlFilter, SubQueue, Tasks, Text, UUID, Worker, Zoneless,
        datetime, deadline, deep, process, ring, timedelta, timezone,
        Bridge, Pace, QueuedTransmitter, QueueNotification, ReceiptStatus,
    )
} | {"UTC": UTC}  # fmt: skip

#: Calls that are not made, and why.
LEFT_OUT = {
    "QueueClient.embedded": "starts a server of this user's",
    "QueueClient.close": "has no arguments, and ends the client of other tests",
    "QueueClient.migrate": "has no arguments",
    "Worker.run": "has no arguments, and runs until it is stopped",
    "QueuedTransmitter.process_pending": "has no arguments",
    "QueuedTransmitter.run": "has no arguments, and runs until it is stopped",
    "QueuedTransmitter.stop": "has no arguments",
    "Interceptor.send": "is what an application writes",
    "Interceptor.send_batch": "is what an application writes",
    "Interceptor.handle": "is what an application writes",
}

#: The objects that have the methods of a class.
OBJECTS = {
    "AutoLockRenewer": "renewer", "Batch": "batch", "DeadLetters": "queue.dead_letters", "Handlers": "handlers",
    "PendingSend": "pending", "Queue": "queue", "QueueClient": "client", "ReceiveContext": "received.context",
    "ReceivedMessage": "received", "Receiver": "receiver", "Schedule": "schedule", "Sender": "sender",
    "Session": "session", "Task": "task", "Tasks": "tasks", "Topic": "topic", "Worker": "worker",
    "Bridge": "bridge", "NotificationTypes": "types", "Pace": "Pace()", "QueuedTransmitter": "queued",
    "Transmitter": "transmitter",
}  # fmt: skip

#: The arguments that a call needs, and usual values of others.
USUAL = {
    "QueueClient.name": "name", "name": "name", "queue": "name", "topic": "topic_name", "subscription": "'all'",
    "message": "Message(1)", "messages": "[Message(1)]", "sequence_number": "number", "sequence_numbers": "[number]",
    "at": "datetime(2099, 1, 1, tzinfo=UTC)", "received": "received", "role": "'public'", "batch_id": "batch_id",
    "then": "Message(1)", "to": "name", "delay": "timedelta(1)", "reason": "'x'", "effect": "'x'", "state": "1",
    "callback": "len", "body": "1", "source": "None", "group_id": "'a'", "timeout": "timedelta(0)", "path": "'$.a'",
    "sql": "'a = 1'", "handler": "lambda message: None", "work": "lambda message: None", "every": "timedelta(1)",
    "cron": "'0 0 * * *'", "client": "client", "queues": "name", "QueuedTransmitter.queue": "queue",
    "Bridge.queue": "queue", "types": "types", "recipient": "len", "notification": "lamp", "transaction": "None",
    "from_version": "1", "attempts": "1", "age": "timedelta(1)",
}  # fmt: skip

#: Arguments by which a call waits: for these it does not wait long.
WAITING = {"wait", "timeout"}
LONG = re.compile(r"None|timedelta\.max|36_50|timedelta\(1\)")

#: Arguments that replace a queue's or topic's settings, whose names no signature has.
SETTINGS = {
    "settings": sorted(pgqueue.QueueSettings.__annotations__),
    "limits": sorted(pgqueue.GroupLimits.__annotations__),
    "given": ["x"],
}

#: Errors of Python's own, of a value that was not checked.
UNCHECKED = re.compile(
    r"unsupported operand|has no attribute|not supported between|object is not|not iterable|not callable|unhashable"
    r"|cannot unpack|must be real number|can't compare|can't subtract|missing \d+ required|argument of type|unpack"
    r"|day is out of range|date value out of range|cannot convert|expected .* (got|found)|Exceeds the limit|recursion"
)

BROKE = [
    "client.get_queue(name=None)",
    "client.get_queue_runtime_properties(name=None)",
    "client.queue('x', body_type=[1])",
    "queue.peek(max_messages=10**5000)",
    "queue.peek(max_messages=deep())",
    "client.delete_subscription({'a': 10**5000}, 'x')",
    "process(received, {'a': 10**5000})",
    "queue.send(Message(1, priority=deep()))",
    "queue.send_batch(None)",
    "topic.send_batch(None)",
    "queue.complete_batch(received)",
    "queue.complete_batch(None)",
    "queue.abandon_batch([1])",
    "queue.renew_lock_batch(received)",
    "renewer.register(None)",
    "handlers.handler('x', max_attempts='; drop')",
    "handlers.only(None)",
    "tasks.declare_schedules(client=[[]])",
    "schedule.upcoming(count=None)",
    "schedule.upcoming(count=4000)",
    "RetryPolicy(first_delay=None)",
    "RetryPolicy(jitter=None)",
    "Worker(queue, lambda message: None, concurrency=None)",
    "Worker(queue, lambda message: None, grace_period='x')",
    "Worker(queue, lambda message, tx: None, transaction=10**5000)",
    "process(received, lambda message: None, retry={'a': 10**5000})",
    "SqlFilter('a = @a', {'a': 10**5000})",
    "SqlFilter('a = @a', [10**5000])",
    "QueuedTransmitter(queue=1, types=types)",
    "QueuedTransmitter(queue, types=None)",
    "QueuedTransmitter(queue, types, pace=1)",
    "QueuedTransmitter(queue, types, time_to_live='x')",
    "Bridge(queue, types, answer=1)",
    "Pace(base=1)",
    "Pace(factor='x')",
    "Pace(base=timedelta(0), factor=10**5000)",
    "types.upgrade('x', from_version=10**5000)",
    "types.from_body({'notification': 10**5000})",
    "SqlFilter('a = @a', {'a': Decimal('sNaN')})",
    "types.register(name=1)",
    "types.register('x', version='x')",
    "types.register('x')(1)",
    "types.upgrade([], from_version=1)",
    "types.upgrade('lamp', from_version='x')",
    "types.from_body({'notification': 'lamp', 'version': 'x'})",
    "transmitter.notify_all(lamp, errors=1)",
]
"""Calls that once raised an error of something else, or none where there is one to raise."""


class Place(Mapping[str, Any]):
    """The objects of a test, each made when an expression names it; another one where a call has used one up."""

    def __init__(self, world: World, stack: ExitStack) -> None:
        self.world = world
        self._stack = stack
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        make = getattr(self, f"_{name}", None)
        if make is None:
            raise KeyError(name)
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def _client(self) -> Any:
        return self.world.client

    def _queue(self) -> Any:
        return self.world.queue

    def _name(self) -> str:
        return self.world.name

    def _received(self) -> Any:
        return self.world.locked()

    def _number(self) -> int:
        return self.world.send(1)[0]

    def _topic_name(self) -> str:
        name = f"t-{uuid4().hex[:12]}"
        self.world.client.create_topic(name)
        self.world.client.create_subscription(name, "all")
        return name

    def _topic(self) -> Any:
        return self.world.client.topic(self["topic_name"])

    def _session(self) -> Any:
        name = f"s-{uuid4().hex[:12]}"
        self.world.client.create_queue(name, requires_session=True)
        queue = self.world.client.queue(name)
        queue.send(Message(1, session_id="a"))
        return queue.accept_session("a")

    def _batch(self) -> Any:
        return self.world.client.create_batch(then=Message(1), to=self.world.name)

    def _batch_id(self) -> UUID:
        return UUID(str(self["batch"].batch_id))

    def _receiver(self) -> Any:
        return self.world.queue.receiver()

    def _sender(self) -> Any:
        return self._stack.enter_context(self.world.queue.sender())

    def _pending(self) -> Any:
        return self["sender"].send(Message(1))

    def _schedule(self) -> Any:
        name = f"every-{uuid4().hex[:12]}"
        return self.world.client.create_schedule(
            name, queue=self.world.name, message=Message(1), every=timedelta(days=1)
        )

    def _renewer(self) -> Any:
        return self._stack.enter_context(AutoLockRenewer())

    def _handlers(self) -> Any:
        return Handlers()

    def _tasks(self) -> Any:
        return Tasks(self.world.client)

    def _task(self) -> Any:
        return self["tasks"].task(queue=self.world.name)(work)

    def _types(self) -> Any:
        types = NotificationTypes()
        types.register("lamp", version=2)(Lamp)
        return types

    def _lamp(self) -> Any:
        return Lamp("on")

    def _transmitter(self) -> Any:
        return Transmitter()

    def _queued(self) -> Any:
        return QueuedTransmitter(self.world.queue, self["types"])

    def _bridge(self) -> Any:
        return Bridge(self.world.queue, self["types"])

    def _worker(self) -> Any:
        return Worker(self.world.queue, lambda message: None)


@dataclass
class Lamp(QueueNotification):
    """A notification."""

    text: str


def work(x: Any = 1) -> None:
    """The work of a task."""


def face_of(call: str) -> Any:
    """The function behind a promised call, which has its signature."""
    owner, _, name = call.partition(".")
    kind = getattr(pgqueue, owner, None) or getattr(pgqueue.notifications, owner)
    return getattr(kind, name) if name else kind


def value(name: str, call: str) -> st.SearchStrategy[str]:
    """Any value of an argument."""
    found = st.sampled_from(VALUES)
    if name in WAITING:
        return found.filter(lambda text: LONG.search(text) is None)
    if name in ("message", "messages", "then"):
        field = st.sampled_from([column.name for column in MESSAGE if column.name != "binary_body"])
        odd = st.builds("Message(**{{'body': 1, '{}': {}}})".format, field, found)
        return found | odd | odd.map("[{}]".format)
    return found


def calls(call: str) -> st.SearchStrategy[str]:
    """Calls with what is needed, some of it replaced by any other value."""
    parameters = [each for each in inspect.signature(face_of(call)).parameters.values() if each.name != "self"]
    needed: dict[str, st.SearchStrategy[str]] = {}
    others: dict[str, st.SearchStrategy[str]] = {}
    for each in parameters:
        if each.kind is each.VAR_KEYWORD:
            others.update({name: value(name, call) for name in SETTINGS[each.name]})
        elif each.kind is each.VAR_POSITIONAL:
            others[f"*{each.name}"] = st.builds("[{}]".format, value(each.name, call))
        else:
            (others if each.default is not each.empty else needed)[each.name] = value(each.name, call)
    usual = {name: USUAL.get(f"{call.partition('.')[0]}.{name}", USUAL.get(name)) for name in needed}
    usual |= {name: USUAL["timeout"] for name in others if name == "timeout"}

    def arguments(odd: set[str]) -> st.SearchStrategy[str]:
        chosen = {
            name: (needed | others)[name] if name in odd else st.just(usual[name])
            for name in {**usual, **dict.fromkeys(sorted(odd))}
        }
        return st.fixed_dictionaries(chosen).map(lambda values: written(call, values))

    names = sorted(needed | others)
    return (st.sets(st.sampled_from(names), min_size=1, max_size=2) if names else st.just(set())).flatmap(arguments)


def written(call: str, values: Mapping[str, str | None]) -> str:
    owner, _, name = call.partition(".")
    called = f"{OBJECTS[owner]}.{name}" if name else owner
    starred = [f"*{text}" for argument, text in values.items() if argument.startswith("*")]
    named = [f"{argument}={text}" for argument, text in values.items() if not argument.startswith("*")]
    return f"{called}({', '.join([*starred, *named])})"


def refuses_in_words(error: Exception, call: str) -> None:
    """An error must be one of ours, or of Python's for wrong arguments, and name what was wrong."""
    told = f"{call}\nraised {type(error).__name__}: {error}"[:2000]
    assert isinstance(error, PGQueueError | TypeError | ValueError), told
    assert not isinstance(error, UnicodeError), told
    cause = error.__cause__
    if isinstance(cause, psycopg.Error):
        assert (cause.sqlstate or "").startswith("PQ") or type(error) is not PGQueueError, told
        assert cause.sqlstate is not None, told
    if isinstance(error, PGQueueError):
        assert type(error) is not PGQueueError or (error.sqlstate or "").startswith("PQ"), told
    else:
        assert UNCHECKED.search(str(error)) is None, told


def check(world: World, call: str) -> None:
    with ExitStack() as stack:
        stack.callback(lambda: None)
        place = Place(world, stack)
        try:
            made = eval(call, dict(NAMES), place)
            if hasattr(made, "__enter__") and call.startswith(("deadline", "received.transaction", "tasks.using")):
                stack.enter_context(made)
        except Exception as error:  # noqa: BLE001 - which ones may be raised is what is tested
            refuses_in_words(error, call)
        with suppress(PGQueueError):
            stack.close()


NOTIFYING = ["QueuedTransmitter", "Bridge", "Pace"]
CALLS = [line.partition("(")[0] for line in f"{PROMISED}{NOTIFICATIONS_PROMISED}".split("\n") if line]
METHODS = [call for call in CALLS if call not in LEFT_OUT]
CONSTRUCTORS = [*OPTIONS, *NOTIFYING]
#: Calls that are tried on one face: the other is generated.
SYNCHRONOUS = {*CONSTRUCTORS, *(call for call in METHODS if hasattr(pgqueue.notifications, call.partition(".")[0]))}


def test_no_call_is_left_out() -> None:
    assert LEFT_OUT.keys() <= {*CALLS}
    assert {call.partition(".")[0] for call in METHODS} == OBJECTS.keys()


@pytest.mark.parametrize("call", [*METHODS, *CONSTRUCTORS])
def test_a_call_does_its_work_or_names_what_is_wrong(either: World, call: str) -> None:
    if call in SYNCHRONOUS and either.mode.face == "async":
        pytest.skip("tried on the synchronous face, from which the other differs in nothing that is checked")

    @settings(max_examples=15, phases=[Phase.reuse, Phase.generate], suppress_health_check=list(HealthCheck))
    @given(calls(call))
    def try_out(written: str) -> None:
        check(either, written)

    try_out()
    assert either.run("select pgqueue.broken_invariants()").fetchall() == []


@pytest.mark.parametrize("call", BROKE)
def test_a_call_that_once_broke(either: World, call: str) -> None:
    check(either, call)
