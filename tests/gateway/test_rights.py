"""Tokens, keys, and the rights of database roles."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator

import psycopg
import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusAuthenticationError, ServiceBusAuthorizationError, ServiceBusError

from pgqueue import Message, QueueClient
from pgqueue.gateway.amqp.composite import part_of
from pgqueue.gateway.amqp.performatives import Accepted, Attach, Begin, Close, Detach, Source, Target
from pgqueue.gateway.keys import derived
from pgqueue.testing import Database
from pgqueue.transports import dsn as dsns
from tests.gateway.raw import RawClient, message, token
from tests.gateway.serving import Served, key_of, served

OK, UNAUTHORIZED = 202, 401


@pytest.fixture
def orders(client: QueueClient) -> QueueClient:
    client.create_queue("orders")
    client.create_queue("other")
    return client


@pytest.fixture
def key_for(database: Database, orders: QueueClient) -> Iterator[Callable[..., str]]:
    """Makes a role with rights, and a key of the same name."""
    made: list[str] = []
    connection = psycopg.connect(database.dsn, autocommit=True)

    def make(*rights: str) -> str:
        role = f"role_{uuid.uuid4().hex[:8]}"
        connection.execute(f"create role {role}".encode())
        made.append(role)
        for right in rights:
            connection.execute(f"select pgqueue.grant_{right}('orders', '{role}')".encode())
        connection.execute("select pgqueue.create_gateway_key(%s, %s)", [role, role])
        return role

    yield make
    for role in made:
        connection.execute(f"drop owned by {role}; drop role {role}".encode())
    connection.close()


def refusal(raw: RawClient) -> str:
    """The condition with which a link, or the connection, is ended."""
    while True:
        found, _ = raw.next()
        assert found is not None
        if isinstance(found, Detach | Close):
            return str(part_of(found.error).condition)


@pytest.fixture
def opened(raw: RawClient) -> RawClient:
    raw.sign_in()
    raw.open()
    return raw


def test_without_a_token_no_link_is_attached(opened: RawClient, orders: QueueClient) -> None:
    opened.write(Attach("l", 9, False, source=Source(), target=Target("orders")))
    assert refusal(opened) == "amqp:unauthorized-access"


@pytest.mark.parametrize(
    ("key", "value", "expires", "code"),
    [
        ("shop", None, None, OK),
        ("shop", "wrong", None, UNAUTHORIZED),
        ("nobody", "x", None, UNAUTHORIZED),
        ("shop", None, 1_000_000, UNAUTHORIZED),
    ],
)
def test_a_token_is_checked(
    opened: RawClient, database: Database, key: str, value: str | None, expires: float | None, code: int
) -> None:
    assert opened.put_token("sb://localhost/orders", key, value or key_of(database, "shop"), expires) == code


@pytest.mark.parametrize(
    "broken", ["", "SharedAccessSignature ", "Bearer x", "SharedAccessSignature sr=a&sig=b&se=c&skn=shop"]
)
def test_invalid_tokens_are_refused(opened: RawClient, broken: str) -> None:
    answer = opened.request("$cbs", "put-token", broken, type="jwt", name="sb://localhost/orders")
    assert answer["status-code"] == UNAUTHORIZED
    assert answer["error-condition"] == "amqp:unauthorized-access"


def test_a_token_is_for_one_entity_and_what_belongs_to_it(
    opened: RawClient, database: Database, orders: QueueClient
) -> None:
    opened.put_token("amqp://localhost:5672/orders", "shop", key_of(database, "shop"))
    opened.sender("orders")
    opened.receiver("orders/$deadletterqueue")
    opened.sender("orders/$management")
    opened.write(Attach("l", 99, False, source=Source(), target=Target("other")))
    assert refusal(opened) == "amqp:unauthorized-access"


def test_a_token_is_renewed_on_a_live_connection(
    opened: RawClient, gateway: Served, database: Database, orders: QueueClient
) -> None:
    value = key_of(database, "shop")
    opened.put_token("sb://localhost/orders", "shop", value, time.time() + 300)
    opened.sender("orders")
    (connection,) = gateway.gateway.connections
    opened.put_token("sb://localhost/orders", "shop", value, time.time() + 600)
    gateway.loop.call_soon_threadsafe(connection.check_grants)
    assert connection.grants["orders"].expires > time.time() + 500
    gateway.loop.call_soon_threadsafe(connection.check_grants)
    assert opened.put_token("sb://localhost/other", "shop", value) == OK
    connection.grants["orders"].expires = 0
    gateway.loop.call_soon_threadsafe(connection.check_grants)
    assert refusal(opened) == "amqp:unauthorized-access"


def test_a_deleted_key_ends_its_links(
    opened: RawClient, gateway: Served, database: Database, orders: QueueClient
) -> None:
    opened.put_token("sb://localhost/orders", "shop", key_of(database, "shop"))
    opened.sender("orders")
    with psycopg.connect(database.dsn) as connection:
        connection.execute("select pgqueue.drop_gateway_key('shop')")
    gateway.call(gateway.gateway.keys.read())
    (one,) = gateway.gateway.connections
    gateway.loop.call_soon_threadsafe(one.check_grants)
    assert refusal(opened) == "amqp:unauthorized-access"


def test_a_name_and_a_key_sign_in_by_plain(raw: RawClient, database: Database, orders: QueueClient) -> None:
    assert raw.sign_in("shop", key_of(database, "shop")) == 0
    raw.open()
    raw.send(raw.sender("orders"), message(data=b"x"))
    raw.outcome()
    assert [found.body for found in orders.queue("orders").peek()] == [b"x"]


def test_a_wrong_password_is_refused(raw: RawClient) -> None:
    assert raw.sign_in("shop", "wrong") == 1
    assert raw.next() == (None, b"")


def test_a_client_without_sasl_still_needs_a_token(raw: RawClient, orders: QueueClient) -> None:
    raw.open()
    raw.write(Attach("l", 9, True, source=Source("orders"), target=Target()))
    assert refusal(raw) == "amqp:unauthorized-access"


def test_a_link_before_open_is_refused(raw: RawClient) -> None:
    raw.sign_in()
    raw.write(Begin(None, 0, 1, 1))
    assert raw.next() == (None, b"")


def test_the_rights_of_the_role_hold(gateway: Served, orders: QueueClient, key_for: Callable[..., str]) -> None:
    sender, receiver = key_for("send"), key_for("receive")
    orders.queue("orders").send(Message("1"))
    with ServiceBusClient.from_connection_string(gateway.connection_string(sender), retry_total=0) as azure:
        with azure.get_queue_sender("orders") as link:
            link.send_messages(ServiceBusMessage("2"))
        with pytest.raises(ServiceBusAuthorizationError), azure.get_queue_receiver("orders") as link:
            link.receive_messages(max_wait_time=2)
        with pytest.raises(ServiceBusAuthorizationError):
            list(azure.list_queue_sessions("orders"))
        with pytest.raises(ServiceBusError), azure.get_queue_sender("other") as link:
            link.send_messages(ServiceBusMessage("3"))
    with ServiceBusClient.from_connection_string(gateway.connection_string(receiver), retry_total=0) as azure:
        with azure.get_queue_receiver("orders", max_wait_time=5) as link:
            (found,) = link.receive_messages()
            link.complete_message(found)
        with pytest.raises(ServiceBusAuthorizationError), azure.get_queue_sender("orders") as link:
            link.send_messages(ServiceBusMessage("4"))
    assert [found.body for found in orders.queue("orders").peek(max_messages=9)] == [b"2"]


def test_a_signature_that_was_made_elsewhere(gateway: Served, database: Database, orders: QueueClient) -> None:
    signed = token("sb://localhost/orders", "shop", key_of(database, "shop"))
    host, port = gateway.address
    given = f"Endpoint=sb://{host}:{port};SharedAccessSignature={signed};UseDevelopmentEmulator=true"
    with (
        ServiceBusClient.from_connection_string(given, retry_total=0) as azure,
        azure.get_queue_sender("orders") as link,
    ):
        link.send_messages(ServiceBusMessage("x"))
    assert len(orders.queue("orders").peek()) == 1


def test_the_keys_differ_with_the_secret_the_name_and_the_salt() -> None:
    given = [(b"", "a", bytes(32)), (b"s", "a", bytes(32)), (b"", "b", bytes(32)), (b"", "a", bytes(31) + b"1")]
    assert len({derived(*one) for one in given}) == len(given)


def test_nothing_is_served_if_a_pooler_drops_the_role(
    raw: RawClient, database: Database, orders: QueueClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dsns, "as_role", lambda dsn, role: dsn)
    raw.sign_in("shop", key_of(database, "shop"))
    raw.open()
    raw.write(Attach("l", 9, False, source=Source(), target=Target("orders")))
    assert refusal(raw) == "amqp:unauthorized-access"


def test_clients_are_served_whose_database_has_no_encoding(database: Database, shop: str, orders: QueueClient) -> None:
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute(f"alter database {connection.info.dbname} set client_encoding = sql_ascii".encode())
    with served(database) as gateway, RawClient(gateway.address) as raw:
        assert raw.sign_in("shop", key_of(database, "shop")) == 0
        raw.open()
        raw.send(raw.sender("orders"), message(data=b"x"))
        assert raw.outcome() == Accepted()


def test_an_unknown_key_is_an_error_of_the_sdk(gateway: Served, orders: QueueClient) -> None:
    wrong = gateway.connection_string().replace("SharedAccessKeyName=shop", "SharedAccessKeyName=nobody")
    with (
        ServiceBusClient.from_connection_string(wrong, retry_total=0) as azure,
        pytest.raises(ServiceBusAuthenticationError),
    ):
        azure.get_queue_sender("orders").send_messages(ServiceBusMessage("x"))
