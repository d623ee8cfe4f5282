from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgqueue import Message
from pgqueue.errors import InvalidArgumentError, MessageNotSerializableError, MessageSizeExceededError, QueueFullError
from pgqueue.flows.traced import PART
from pgqueue.model.cipher import is_encrypted
from tests.contract.world import World
from tests.fields import TEXT_VALUES

BODIES: dict[str, Any] = {
    "an object": {"id": 7, "nested": {"list": [1, 2.5, None, True, {"deep": []}]}},
    "a list": [],
    "nothing": None,
    "false": False,
    "zero": 0,
    "empty text": "",
    "text": "plain",
    "unicode": "Grüße, 世界, \U0001f600, \u2028, \x7f",
    "a quote and a backslash": "it's \\ \" {curly,braces}",
    "a look-alike of NUL": "\\u0000",
    "a large number": 2**200,
    "a large negative number": -(2**64) - 1,
    "a fraction": 0.1,
    "a tiny fraction": 5e-324,
    "bytes": b"\x00\x01\xff",
    "no bytes": b"",
    "bytes that look like JSON": b'{"a": 1}',
    "many bytes": bytes(range(256)) * 4096,
    "much text": "ä" * 500_000,
}

ALL_FIELDS: dict[str, Any] = {
    **TEXT_VALUES,
    "subject": "Ünïcode",
    "application_properties": {"tries": 3, "source": {"name": "ä"}, "nothing": None},
    "priority": -7,
}

EMPTY_FIELDS: dict[str, Any] = {
    **dict.fromkeys(TEXT_VALUES, ""),
    "application_properties": {},
}

FIELDS = [*ALL_FIELDS]

OF_THE_QUEUE = "from pgqueue.message join pgqueue.queue on queue.id = queue_id where name = %s"


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_body_comes_out_as_it_went_in(either: World, body: Any) -> None:
    either.queue.send(Message(body))
    received = either.receive()
    assert received.body == body
    assert type(received.body) is type(body)


@pytest.mark.parametrize(
    ("fields", "body"),
    [(ALL_FIELDS, {"a": 1}), (EMPTY_FIELDS, b"\x00"), ({}, None)],
    ids=["all fields", "all empty", "none"],
)
def test_every_field_comes_out_as_it_went_in(world: World, fields: dict[str, Any], body: Any) -> None:
    with world.transaction() as transaction:
        number = world.queue.send(Message(body, **fields), transaction=transaction.handle)
        numbers = world.queue.send_batch([Message(body, **fields)], transaction=transaction.handle)
        transaction.commit()
    received = world.queue.receive(max_messages=2)
    assert [message.sequence_number for message in received] == [number, *numbers]
    for message in received:
        for field in FIELDS:
            assert getattr(message, field) == fields.get(field, 0 if field == "priority" else None)
        assert message.body == body
        assert message.queue == world.name
        assert message.delivery_count == 1


def test_a_batch_of_every_sort_comes_out_in_order(world: World) -> None:
    messages = [Message(body) for body in BODIES.values()]
    messages += [Message(1, **ALL_FIELDS | {"priority": 0}), Message(b"", **EMPTY_FIELDS)]
    with world.transaction() as transaction:
        numbers = world.queue.send_batch(messages, transaction=transaction.handle)
        transaction.commit()
    assert numbers == sorted(set(numbers))
    received = world.queue.receive(max_messages=100)
    assert [message.sequence_number for message in received] == numbers
    assert [message.body for message in received] == [message.body for message in messages]
    assert [message.subject for message in received][-2:] == ["Ünïcode", ""]
    assert [message.application_properties for message in received][-3:] == [
        None, ALL_FIELDS["application_properties"], {},
    ]  # fmt: skip


json_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-1e15, 1e15) | json_text,
    lambda values: st.lists(values) | st.dictionaries(json_text, values),
    max_leaves=12,
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(json_values | st.binary().filter(lambda body: not is_encrypted(body)), min_size=1, max_size=40))
def test_every_value_that_json_or_bytes_can_hold_is_kept(either: World, bodies: list[Any]) -> None:
    either.queue.send_batch([Message(body) for body in bodies])
    received = either.queue.receive(max_messages=len(bodies))
    assert [message.body for message in received] == bodies
    either.queue.complete_batch(received)


def test_numbers_increase_from_one_send_to_the_next(world: World) -> None:
    with world.transaction() as transaction:
        first = world.queue.send(Message(1), transaction=transaction.handle)
        batch = world.queue.send_batch([Message(2), Message(3)], transaction=transaction.handle)
        last = world.queue.send(Message(4), transaction=transaction.handle)
        transaction.commit()
    assert first < batch[0] < batch[1] < last
    assert world.bodies() == [1, 2, 3, 4]


def test_a_received_message_has_the_time_of_its_send(either: World) -> None:
    before = either.database.clock.now()
    either.send("now")
    received = either.receive()
    assert received.enqueued_time is not None
    assert before <= received.enqueued_time <= either.database.clock.now()
    assert received.enqueued_time.utcoffset() is not None


def test_messages_sent_in_a_callers_transaction_are_there_once_it_commits(caller: World) -> None:
    with caller.transaction() as transaction:
        transaction.execute(caller.note("business"))
        caller.queue.send(Message("one"), transaction=transaction.handle)
        caller.queue.send_batch([Message("two")], transaction=transaction.handle)
        assert caller.queue.receive(max_messages=2) == []
        assert caller.bodies() == []
        transaction.commit()
    assert caller.bodies() == ["one", "two"]
    assert caller.effects() == ["business"]


def test_messages_sent_in_a_callers_transaction_were_never_there_when_it_aborts(caller: World) -> None:
    with caller.transaction() as transaction:
        transaction.execute(caller.note("business"))
        caller.queue.send(Message("one"), transaction=transaction.handle)
        caller.queue.send_batch([Message("two")], transaction=transaction.handle)
        transaction.rollback()
    assert caller.queue.receive(max_messages=2) == []
    assert caller.bodies() == []
    assert caller.effects() == []


def test_a_savepoint_takes_back_what_was_sent_in_it_and_nothing_else(caller: World) -> None:
    with caller.transaction() as transaction:
        caller.queue.send(Message("before"), transaction=transaction.handle)
        with transaction.savepoint():
            caller.queue.send(Message("within"), transaction=transaction.handle)
            transaction.undo()
        caller.queue.send(Message("after"), transaction=transaction.handle)
        transaction.commit()
    assert caller.bodies() == ["before", "after"]


def test_ten_thousand_are_sent_in_one_transaction(own: World) -> None:
    numbers = own.queue.send_batch(Message(number) for number in range(10_000))
    assert len(set(numbers)) == 10_000
    assert numbers == sorted(numbers)
    assert transactions_and_messages(own) == [(1, 10_000)]
    assert own.receive().body == 0
    own.client.purge_queue(own.name)


def test_keys_are_sent_in_one_statement_however_many_they_are(own: World) -> None:
    own.queue.send_batch(Message(number, message_id=str(number)) for number in range(3 * PART))
    assert commands_of(own) == 1
    own.client.purge_queue(own.name)


def test_bodies_of_a_type_are_sent_in_one_statement(own: World) -> None:
    own.client.queue(own.name, body_type=int).send_batch(Message(number) for number in range(3 * PART))
    assert commands_of(own) == 1
    own.client.purge_queue(own.name)


def test_many_bodies_are_sent_in_parts_where_the_transaction_is_ours(own: World) -> None:
    own.queue.send_batch(Message(number) for number in range(2 * PART - 1))
    assert commands_of(own) == 1
    own.client.purge_queue(own.name)
    own.queue.send_batch(Message(number) for number in range(2 * PART + 1))
    assert commands_of(own) == 3
    assert own.bodies() == list(range(2 * PART + 1))
    own.client.purge_queue(own.name)


def test_bodies_that_fill_the_socket_are_sent_in_parts(own: World) -> None:
    own.queue.send_batch(Message(f"{number}{'x' * 20_000}") for number in range(2 * PART))
    assert commands_of(own) == 2
    own.client.purge_queue(own.name)


def test_many_bodies_are_sent_in_a_callers_transaction(caller: World) -> None:
    with caller.transaction() as transaction:
        caller.queue.send_batch((Message(number) for number in range(3 * PART)), transaction=transaction.handle)
        transaction.rollback()
    assert caller.bodies() == []


@pytest.mark.parametrize("place", [0, PART, 3 * PART - 1])
def test_one_bad_body_and_nothing_of_many_is_stored(own: World, place: int, caplog: pytest.LogCaptureFixture) -> None:
    bodies: list[Any] = list(range(3 * PART))
    bodies[place] = object()
    with pytest.raises(MessageNotSerializableError, match="body is object"):
        own.queue.send_batch(map(Message, bodies))
    assert own.bodies() == []
    assert not of_pools(caplog)


def test_one_of_many_that_is_too_large_is_named_by_its_place_among_all(own: World) -> None:
    own.client.update_queue(own.name, max_message_size=100)
    bodies: list[Any] = list(range(3 * PART))
    bodies[PART + 2] = "x" * 200
    with pytest.raises(MessageSizeExceededError, match=f"message {PART + 3} "):
        own.queue.send_batch(map(Message, bodies))
    assert own.bodies() == []


@pytest.mark.parametrize("most", [PART // 2, PART + 1, 3 * PART - 1])
def test_a_queue_that_becomes_full_takes_nothing_of_many(
    own: World, most: int, caplog: pytest.LogCaptureFixture
) -> None:
    own.client.update_queue(own.name, max_queue_length=most)
    with pytest.raises(QueueFullError, match=f"holds 0 of {most}"):
        own.queue.send_batch(map(Message, range(3 * PART)))
    assert own.bodies() == []
    assert not of_pools(caplog)
    assert len(own.queue.send_batch(map(Message, range(most)))) == most
    own.client.purge_queue(own.name)


def test_an_empty_batch_stores_nothing_and_asks_for_nothing(either: World) -> None:
    assert either.queue.send_batch([]) == []
    assert either.client.queue("no-such-queue").send_batch([]) == []


def test_any_iterable_of_messages_is_a_batch(either: World) -> None:
    assert len(either.queue.send_batch(Message(body) for body in "abc")) == 3
    assert either.bodies() == ["a", "b", "c"]


@pytest.mark.parametrize("place", [0, 1, 99])
@pytest.mark.parametrize(
    "bad",
    [Message(float("nan")), Message({"a\0": 1}), Message(object()), Message(1, subject="\0"), Message(1, priority=200)],
    ids=["NaN", "NUL", "object", "subject", "priority"],
)
def test_one_bad_message_and_nothing_of_the_batch_is_stored(either: World, bad: Message, place: int) -> None:
    messages = [Message(number) for number in range(100)]
    messages[place] = bad
    refusals = (InvalidArgumentError, MessageNotSerializableError)
    with pytest.raises(refusals):
        either.queue.send_batch(messages)
    with pytest.raises(refusals):
        either.queue.send(bad)
    assert either.bodies() == []


def test_a_message_that_cannot_be_sent_leaves_a_callers_transaction_as_it_was(caller: World) -> None:
    with caller.transaction() as transaction:
        caller.queue.send(Message("good"), transaction=transaction.handle)
        with pytest.raises(MessageNotSerializableError):
            caller.queue.send(Message("\0"), transaction=transaction.handle)
        transaction.commit()
    assert caller.bodies() == ["good"]


def test_one_message_too_large_and_nothing_of_the_batch_is_stored(world: World) -> None:
    world.client.update_queue(world.name, max_message_size=100)
    messages = [Message("x" * 98), Message("y" * 99), Message("z")]
    for send in (
        lambda handle: world.queue.send_batch(messages, transaction=handle),
        lambda handle: world.queue.send(messages[1], transaction=handle),
    ):
        with world.transaction() as transaction:
            with pytest.raises(MessageSizeExceededError) as refusal:
                send(transaction.handle)
            transaction.commit()
        assert "101 bytes" in str(refusal.value)
        assert "at most 100" in str(refusal.value)
        assert world.name in str(refusal.value)
        assert refusal.value.sqlstate == "PQ005"
        assert world.bodies() == []
    world.queue.send(messages[0])


@pytest.mark.parametrize(
    ("message", "size"),
    [
        (Message(b"x" * 100), 100),
        (Message(b"x" * 101), 101),
        (Message("ä" * 49), 100),
        (Message("ä" * 50), 102),
        (Message(b"x" * 90, application_properties={"a": 10}), 99),
        (Message(b"x" * 90, application_properties={"ab": 100}), 101),
        (Message(b"", subject="s" * 260), 0),
    ],
)
def test_a_size_is_that_of_body_and_application_properties_in_bytes(either: World, message: Message, size: int) -> None:
    either.client.update_queue(either.name, max_message_size=100)
    for send in (either.queue.send, lambda message: either.queue.send_batch([message])):
        if size <= 100:
            send(message)
        else:
            with pytest.raises(MessageSizeExceededError, match=f"{size} bytes"):
                send(message)


def test_the_more_urgent_is_received_first_and_among_equals_the_earlier(world: World) -> None:
    with world.transaction() as transaction:
        for body, priority in [("usual 1", 0), ("late", 100), ("urgent 1", -100), ("usual 2", 0), ("urgent 2", -100)]:
            world.queue.send(Message(body, priority=priority), transaction=transaction.handle)
        transaction.commit()
    received = world.queue.receive(max_messages=5)
    assert [message.body for message in received] == ["urgent 1", "urgent 2", "usual 1", "usual 2", "late"]
    assert [message.priority for message in received] == [-100, -100, 0, 0, 100]


BAD_ARGUMENTS: dict[str, dict[str, Any]] = {
    "no messages": {"max_messages": 0},
    "negative messages": {"max_messages": -1},
    "messages as text": {"max_messages": "10"},
    "half a message": {"max_messages": 0.5},
    "None messages": {"max_messages": None},
    "messages beyond all bounds": {"max_messages": 2**31},
    "a wait in seconds": {"wait": 5},
    "a lock duration in seconds": {"lock_duration": 5},
    "no lock duration": {"lock_duration": timedelta(0)},
    "a negative lock duration": {"lock_duration": timedelta(seconds=-1)},
    "an endless lock duration": {"lock_duration": timedelta.max},
}


@pytest.mark.parametrize("arguments", BAD_ARGUMENTS.values(), ids=BAD_ARGUMENTS)
def test_a_bad_argument_of_a_receive_is_named_and_nothing_is_locked(either: World, arguments: dict[str, Any]) -> None:
    either.send("there")
    with pytest.raises(InvalidArgumentError) as refusal:
        either.queue.receive(**arguments)
    (argument,) = arguments
    assert f"{argument} must be" in str(refusal.value)
    assert either.receive().delivery_count == 1


def transactions_and_messages(world: World) -> list[tuple[Any, ...]]:
    return world.look(f"select count(distinct message.xmin::text), count(*) {OF_THE_QUEUE}", world.name)


def commands_of(world: World) -> int:
    """The statements that have stored the messages of the queue."""
    [(commands,)] = world.look(
        f"select count(distinct (message.xmin::text, message.cmin::text)) {OF_THE_QUEUE}", world.name
    )
    return int(commands)


def of_pools(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings of pools, about connections that came back in a transaction, or broken."""
    return [record.getMessage() for record in caplog.records if record.name.startswith(("psycopg", "sqlalchemy"))]
