"""The Azure SDK for Python, unmodified, with queues that Python and psql share."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    AutoLockRenewer,
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiveMode,
    ServiceBusReceiver,
    ServiceBusSubQueue,
    TransportType,
)
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient
from azure.servicebus.amqp import AmqpAnnotatedMessage
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessageNotFoundError,
    MessageSizeExceededError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    OperationTimeoutError,
    ServiceBusAuthenticationError,
    ServiceBusError,
    ServiceBusQuotaExceededError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

from pgqueue import Message, QueueClient, SqlFilter
from pgqueue.gateway import management
from pgqueue.gateway.receiving import settle
from pgqueue.testing import Database
from tests.gateway.serving import Served, served
from tests.patience import eventually

pytestmark = pytest.mark.core

HOUR = timedelta(hours=1)


@pytest.fixture
def orders(client: QueueClient) -> QueueClient:
    client.create_queue("orders", lock_duration=timedelta(minutes=5))
    client.create_queue("steps", requires_session=True)
    client.create_topic("events")
    client.create_subscription("events", "all")
    return client


@pytest.fixture
def receiver(azure: ServiceBusClient, orders: QueueClient) -> Iterator[ServiceBusReceiver]:
    with azure.get_queue_receiver("orders", max_wait_time=5) as receiver:
        yield receiver


def send(azure: ServiceBusClient, *bodies: Any, to: str = "orders", **fields: Any) -> None:
    with azure.get_queue_sender(to) as sender:
        sender.send_messages([ServiceBusMessage(body, **fields) for body in bodies])


def bodies(received: list[Any]) -> list[str]:
    return [str(message) for message in received]


def test_a_message_arrives_with_its_fields(azure: ServiceBusClient, receiver: ServiceBusReceiver) -> None:
    with azure.get_queue_sender("orders") as sender:
        sender.send_messages(
            ServiceBusMessage(
                b"\x00\xff", message_id="m", subject="s", correlation_id="c", content_type="text/plain", reply_to="r",
                to="t", reply_to_session_id="rs", application_properties={"k": 7, "f": 0.5, "t": "x", "b": True},
                time_to_live=HOUR,
            )
        )  # fmt: skip
    (message,) = receiver.receive_messages()
    assert b"".join(message.body) == b"\x00\xff"
    fields = ("message_id", "subject", "correlation_id", "content_type", "reply_to", "to", "reply_to_session_id")
    assert [getattr(message, name) for name in fields] == ["m", "s", "c", "text/plain", "r", "t", "rs"]
    assert message.application_properties == {b"k": 7, b"f": 0.5, b"t": b"x", b"b": True}
    assert (message.delivery_count, message.time_to_live, message.sequence_number) == (0, HOUR, 1)
    assert message.locked_until_utc is not None
    annotations = message.raw_amqp_message.delivery_annotations
    assert annotations is not None
    assert annotations[b"x-opt-lock-token"] == message.lock_token
    assert message.enqueued_time_utc is not None
    assert message.locked_until_utc > message.enqueued_time_utc
    receiver.complete_message(message)


def test_a_list_and_a_batch_are_stored_whole(azure: ServiceBusClient, orders: QueueClient) -> None:
    with azure.get_queue_sender("orders") as sender:
        sender.send_messages([ServiceBusMessage(str(n)) for n in range(3)])
        batch = sender.create_message_batch()
        for n in range(3, 6):
            batch.add_message(ServiceBusMessage(str(n)))
        sender.send_messages(batch)
    found = orders.queue("orders").peek(max_messages=10)
    assert [message.body for message in found] == [b"%d" % n for n in range(6)]


def test_python_sends_and_the_sdk_receives(receiver: ServiceBusReceiver, orders: QueueClient) -> None:
    orders.queue("orders").send(Message({"id": 7}, application_properties={"n": 1}))
    (message,) = receiver.receive_messages()
    assert (str(message), message.content_type) == ('{"id": 7}', "application/json")
    receiver.complete_message(message)
    assert orders.get_queue_runtime_properties("orders").locked == 0


def test_a_message_is_settled_in_every_way(
    azure: ServiceBusClient, receiver: ServiceBusReceiver, orders: QueueClient
) -> None:
    send(azure, "complete", "abandon", "dead-letter", "defer")
    first, second, third, fourth = receiver.receive_messages(max_message_count=4)
    receiver.complete_message(first)
    receiver.abandon_message(second)
    receiver.dead_letter_message(third, reason="Bad", error_description="no such street")
    receiver.defer_message(fourth)
    counts = orders.get_queue_runtime_properties("orders")
    assert (counts.ready, counts.locked, counts.deferred, counts.dead_letters) == (1, 0, 1, 1)
    (again,) = receiver.receive_messages()
    assert (str(again), again.delivery_count) == ("abandon", 1)
    receiver.complete_message(again)
    (deferred,) = receiver.receive_deferred_messages(fourth.sequence_number or 0)
    assert str(deferred) == "defer"
    receiver.complete_message(deferred)
    with azure.get_queue_receiver("orders", sub_queue=ServiceBusSubQueue.DEAD_LETTER, max_wait_time=5) as dead_letters:
        (dead,) = dead_letters.receive_messages()
        assert (str(dead), dead.dead_letter_reason, dead.dead_letter_error_description) == (
            "dead-letter", "Bad", "no such street",
        )  # fmt: skip
        dead_letters.complete_message(dead)
    assert orders.queue("orders").peek() == orders.queue("orders").dead_letters.peek() == []


def test_a_deferred_message_dies_of_the_reason_that_is_given(receiver: ServiceBusReceiver, orders: QueueClient) -> None:
    number = orders.queue("orders").send(Message("x"))
    receiver.defer_message(receiver.receive_messages(max_wait_time=10)[0])
    (deferred,) = receiver.receive_deferred_messages([number])
    receiver.dead_letter_message(deferred, reason="spoilt", error_description="it smells")
    (dead,) = orders.queue("orders").dead_letters.peek()
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("spoilt", "it smells")


def test_a_deferred_message_that_cannot_be_deleted_is_not_received_and_deleted(
    azure: ServiceBusClient, receiver: ServiceBusReceiver, orders: QueueClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = [orders.queue("orders").send(Message(body)) for body in (b"lost", b"mine")]
    for message in receiver.receive_messages(2, max_wait_time=10):
        receiver.defer_message(message)

    async def meets_a_cancellation(*arguments: Any) -> Any:
        orders.queue("orders").cancel(first)
        return await settle(*arguments)

    monkeypatch.setattr(management, "settle", meets_a_cancellation)
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with azure.get_queue_receiver("orders", receive_mode=mode) as deleting:
        found = deleting.receive_deferred_messages([first, second])
    assert [str(message) for message in found] == ["mine"]
    assert orders.queue("orders").peek() == []


def test_a_lost_lock_is_the_error_of_the_sdk(
    azure: ServiceBusClient, receiver: ServiceBusReceiver, orders: QueueClient
) -> None:
    send(azure, "1", "2", "3")
    first, second, third = receiver.receive_messages(max_message_count=3)
    for message in (first, second, third):
        orders.queue("orders").unlock(message.sequence_number or 0)
    with pytest.raises(MessageLockLostError):
        receiver.complete_message(first)
    with pytest.raises(MessageLockLostError):
        receiver.abandon_message(second)
    with pytest.raises(MessageLockLostError):
        receiver.renew_message_lock(third)


def test_a_lock_is_renewed(azure: ServiceBusClient, orders: QueueClient, database: Database) -> None:
    orders.update_queue("orders", lock_duration=timedelta(seconds=30))
    send(azure, "1")
    with azure.get_queue_receiver("orders", max_wait_time=5) as receiver, AutoLockRenewer() as renewer:
        (message,) = receiver.receive_messages()
        until = message.locked_until_utc
        database.clock.move(timedelta(seconds=20))
        assert until is not None
        assert receiver.renew_message_lock(message) > until
        renewer.register(receiver, message)
        receiver.complete_message(message)


def test_scheduled_messages_wait_and_can_be_cancelled(
    azure: ServiceBusClient, receiver: ServiceBusReceiver, orders: QueueClient, database: Database
) -> None:
    at = datetime.now(UTC) + HOUR
    with azure.get_queue_sender("orders") as sender:
        numbers = sender.schedule_messages([ServiceBusMessage("1"), ServiceBusMessage("2")], at)
        sender.cancel_scheduled_messages(numbers[0])
        with pytest.raises(MessageNotFoundError):
            sender.cancel_scheduled_messages(numbers[0])
        sender.send_messages(ServiceBusMessage("3", scheduled_enqueue_time_utc=at))
    peeked = receiver.peek_messages(max_message_count=9)
    assert [(str(message), message.state.name) for message in peeked] == [("2", "SCHEDULED"), ("3", "SCHEDULED")]
    due = peeked[0].scheduled_enqueue_time_utc
    assert due is not None
    assert abs(due - at) < timedelta(seconds=1)
    database.clock.move(2 * HOUR)
    received = receiver.receive_messages(max_message_count=2)
    received += receiver.receive_messages() if len(received) < 2 else []
    assert bodies(received) == ["2", "3"]


def test_received_and_deleted_at_once(azure: ServiceBusClient, orders: QueueClient) -> None:
    send(azure, "1", "2")
    with azure.get_queue_receiver(
        "orders", receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE, max_wait_time=5, prefetch_count=5
    ) as receiver:
        received = receiver.receive_messages(max_message_count=2)
    assert [str(message) for message in received] == ["1", "2"]
    assert {(message.lock_token, message.locked_until_utc) for message in received} == {(None, None)}
    assert orders.queue("orders").peek() == []


def test_iteration_ends_when_nothing_comes(azure: ServiceBusClient, orders: QueueClient) -> None:
    send(azure, *map(str, range(30)))
    seen = []
    with azure.get_queue_receiver("orders", max_wait_time=1, prefetch_count=10) as receiver:
        for message in receiver:
            seen.append(str(message))
            receiver.complete_message(message)
    assert seen == [*map(str, range(30))]
    assert orders.queue("orders").peek() == []


def test_a_receiver_is_woken(azure: ServiceBusClient, receiver: ServiceBusReceiver, orders: QueueClient) -> None:
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.extend(bodies(receiver.receive_messages(max_wait_time=60))))
    thread.start()
    orders.queue("orders").send(Message("late"))
    thread.join(30)
    assert found == ['"late"']


def test_a_session_in_order_with_its_state(azure: ServiceBusClient, orders: QueueClient) -> None:
    send(azure, "1", "2", "3", to="steps", session_id="a")
    with azure.get_queue_receiver("steps", session_id="a", max_wait_time=5) as receiver:
        received = receiver.receive_messages(max_message_count=3)
        while len(received) < 3:
            received += receiver.receive_messages(max_message_count=3)
        assert bodies(received) == ["1", "2", "3"]
        assert {message.session_id for message in received} == {"a"}
        assert receiver.session.get_state() is None
        receiver.session.set_state(b"half")
        assert receiver.session.get_state() == b"half"
        assert receiver.session.renew_lock() == receiver.session.locked_until_utc
        with (
            pytest.raises(SessionCannotBeLockedError),
            azure.get_queue_receiver("steps", session_id="a", max_wait_time=1),
        ):
            pass
        for message in received[:2]:
            receiver.complete_message(message)
    eventually(lambda: not orders.queue("steps").list_sessions()[0].is_locked, "the session was not given back")
    (known,) = orders.queue("steps").list_sessions()
    set_at = known.state_set_at
    assert set_at is not None
    for after, found in (
        (None, ["a"]),
        (set_at - timedelta(milliseconds=1), ["a"]),
        (set_at + timedelta(milliseconds=1), []),
        (datetime.max.replace(tzinfo=UTC), []),
    ):
        assert list(azure.list_queue_sessions("steps", state_updated_after=after)) == found
    with azure.get_queue_receiver("steps", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=5) as receiver:
        assert receiver.session.session_id == "a"
        (message,) = receiver.receive_messages()
        assert (str(message), message.delivery_count) == ("3", 1)
        receiver.complete_message(message)


def test_a_deferred_message_is_held_as_long_as_its_session(
    azure: ServiceBusClient, gateway: Served, orders: QueueClient
) -> None:
    send(azure, "1", to="steps", session_id="a")
    with azure.get_queue_receiver("steps", session_id="a", max_wait_time=5) as receiver:
        receiver.defer_message(next(receiver))
        (number,) = [message.sequence_number for message in orders.queue("steps").peek()]
        (deferred,) = receiver.receive_deferred_messages(number)
        assert receiver.session.renew_lock() == receiver.session.locked_until_utc
        (held,) = gateway.gateway.held.values()
        first: Any = held.received.locked_until
        renewed: Any = held.locked_until
        assert first < receiver.session.locked_until_utc <= renewed
        receiver.complete_message(deferred)
    assert orders.queue("steps").peek() == []


def test_no_session_has_messages(azure: ServiceBusClient, orders: QueueClient) -> None:
    with (
        pytest.raises(OperationTimeoutError),
        azure.get_queue_receiver("steps", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1),
    ):
        pass


def test_a_session_that_was_lost(azure: ServiceBusClient, orders: QueueClient, database: Database) -> None:
    send(azure, "1", to="steps", session_id="a")
    with azure.get_queue_receiver("steps", session_id="a", max_wait_time=5) as receiver:
        (message,) = receiver.receive_messages()
        database.clock.move(HOUR)
        with orders.queue("steps").accept_session("a"):
            with pytest.raises(SessionLockLostError):
                receiver.complete_message(message)
            with pytest.raises(SessionLockLostError):
                receiver.session.set_state(b"x")


def test_a_topic_and_its_rules(azure: ServiceBusClient, orders: QueueClient) -> None:
    orders.create_subscription("events", "large", filter=SqlFilter("amount > 100"))
    with azure.get_topic_sender("events") as sender:
        sender.send_messages([ServiceBusMessage(str(n), application_properties={"amount": n}) for n in (50, 500)])
        (number,) = sender.schedule_messages(ServiceBusMessage("later"), datetime.now(UTC) + HOUR)
        sender.cancel_scheduled_messages(number)
    for name, expected in (("all", ["50", "500"]), ("large", ["500"])):
        with azure.get_subscription_receiver("events", name, max_wait_time=5) as receiver:
            received = receiver.receive_messages(max_message_count=2)
            received += receiver.receive_messages() if len(received) < len(expected) else []
            assert bodies(received) == expected
            for message in received:
                receiver.complete_message(message)
            assert receiver.peek_messages(max_message_count=5) == []


def test_all_kinds_of_bodies(azure: ServiceBusClient, receiver: ServiceBusReceiver, orders: QueueClient) -> None:
    with azure.get_queue_sender("orders") as sender:
        sender.send_messages(
            [
                AmqpAnnotatedMessage(value_body={b"k": [1, 2]}, annotations={"mine": 1}, footer={"f": 2}),
                AmqpAnnotatedMessage(sequence_body=[1, 2, 3]),
                AmqpAnnotatedMessage(data_body=[b"a", b"b"]),
            ]
        )
    received = receiver.receive_messages(max_message_count=3)
    raw = [message.raw_amqp_message for message in received]
    assert [message.body_type.name for message in raw] == ["VALUE", "SEQUENCE", "DATA"]
    assert raw[0].body == {b"k": [1, 2]}
    assert list(raw[2].body) == [b"a", b"b"]
    assert raw[0].annotations is not None
    assert raw[0].annotations[b"mine"] == 1
    assert raw[0].footer == {b"f": 2}


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"status": "SEND_DISABLED"}, MessagingEntityDisabledError),
        ({"max_queue_length": 1}, ServiceBusQuotaExceededError),
        ({"max_message_size": 10}, MessageSizeExceededError),
    ],
)
def test_a_refused_send_is_the_error_of_the_sdk(
    azure: ServiceBusClient, orders: QueueClient, settings: Any, error: type[ServiceBusError]
) -> None:
    orders.queue("orders").send(Message("x"))
    orders.update_queue("orders", **settings)
    with azure.get_queue_sender("orders") as sender, pytest.raises(error) as refused:
        sender.send_messages(ServiceBusMessage("much too large"))
    assert "tracking id" in str(refused.value)


def test_unknown_entities_and_wrong_kinds(azure: ServiceBusClient, orders: QueueClient) -> None:
    with pytest.raises(MessagingEntityNotFoundError):
        list(azure.list_queue_sessions("nosuch"))
    with pytest.raises(ServiceBusError, match="send to its topic"):
        send(azure, "1", to="events/subscriptions/all")
    with pytest.raises(MessagingEntityNotFoundError):
        send(azure, "1", to="nosuch")
    with pytest.raises(MessagingEntityNotFoundError), azure.get_queue_receiver("nosuch") as receiver:
        receiver.receive_messages(max_wait_time=1)
    with pytest.raises(ServiceBusError, match="requires sessions"), azure.get_queue_receiver("steps") as receiver:
        receiver.receive_messages(max_wait_time=1)
    with pytest.raises(ServiceBusError, match="session_id"):
        send(azure, "without a session", to="steps")


def test_the_wrong_key_is_refused(gateway: Served, orders: QueueClient) -> None:
    wrong = gateway.connection_string().replace("SharedAccessKey=", "SharedAccessKey=x")
    with (
        ServiceBusClient.from_connection_string(wrong, retry_total=0) as azure,
        pytest.raises(ServiceBusAuthenticationError),
    ):
        send(azure, "1")


async def test_the_asynchronous_client(gateway: Served, orders: QueueClient) -> None:
    async with AsyncServiceBusClient.from_connection_string(gateway.connection_string()) as azure:
        async with azure.get_queue_sender("orders") as sender:
            await asyncio.gather(*(sender.send_messages(ServiceBusMessage(str(n))) for n in range(5)))
        async with azure.get_queue_receiver("orders", max_wait_time=5) as receiver:
            seen: list[str] = []
            while len(seen) < 5:
                for message in await receiver.receive_messages(max_message_count=5):
                    seen.append(str(message))
                    await receiver.complete_message(message)
    assert sorted(seen) == [*map(str, range(5))]
    assert orders.queue("orders").peek() == []


def test_over_tls_and_websockets(
    database: Database, shop: str, orders: QueueClient, certificate: Any, free_port: int
) -> None:
    settings: dict[str, Any] = {"certificate": certificate, "websocket": ("127.0.0.1", free_port)}
    with served(database, **settings) as gateway:
        plain = gateway.connection_string().replace(";UseDevelopmentEmulator=true", "")
        for transport, port in ((TransportType.Amqp, gateway.address[1]), (TransportType.AmqpOverWebsocket, free_port)):
            with ServiceBusClient.from_connection_string(
                plain, transport_type=transport, custom_endpoint_address=f"sb://localhost:{port}",
                connection_verify=str(certificate), retry_total=0,
            ) as azure:  # fmt: skip
                send(azure, "over", "the wire")
                with azure.get_queue_receiver("orders", max_wait_time=5) as receiver:
                    received = receiver.receive_messages(max_message_count=2)
                    received += receiver.receive_messages() if len(received) < 2 else []
                    for message in received:
                        receiver.complete_message(message)
                assert bodies(received) == ["over", "the wire"]
