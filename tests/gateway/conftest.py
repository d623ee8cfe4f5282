from __future__ import annotations

import gc
import logging
import socket
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import psycopg
import pytest
from azure.servicebus import ServiceBusClient
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from pgqueue import QueueClient
from pgqueue.testing import Database
from tests.gateway.raw import RawClient
from tests.gateway.serving import ANYWHERE, Served, key_of, served


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The SDK does not close its sockets when a connection breaks."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Collect the sockets of the SDK before other tests run."""
    yield
    gc.collect()


@pytest.fixture
def shop(database: Database) -> Iterator[str]:
    """A role that may do everything, with the key ``shop``."""
    role = f"shop_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute(f"create role {role}".encode())
        connection.execute("select pgqueue.grant_admin(%s), pgqueue.create_gateway_key('shop', %s)", [role, role])
        yield role
        connection.execute(f"drop owned by {role}; drop role {role}".encode())


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of this machine, with its key in the same file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False).sign(key, hashes.SHA256())
    )  # fmt: skip
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path = tmp_path_factory.mktemp("certificate") / "both.pem"
    path.write_bytes(made.public_bytes(Encoding.PEM) + private)
    return path


@pytest.fixture
def free_port() -> int:
    """A port that is free."""
    with socket.create_server(ANYWHERE) as one:
        return int(one.getsockname()[1])


@pytest.fixture
def gateway(database: Database, shop: str) -> Iterator[Served]:
    """A gateway on the test's database."""
    with served(database) as one:
        yield one


@pytest.fixture
def client(database: Database) -> Iterator[QueueClient]:
    """A client of the database itself."""
    with QueueClient(database.dsn) as client:
        yield client


@pytest.fixture
def azure(gateway: Served) -> Iterator[ServiceBusClient]:
    """An unmodified client of the Azure SDK."""
    with ServiceBusClient.from_connection_string(gateway.connection_string(), retry_total=0) as client:
        yield client


@pytest.fixture
def raw(gateway: Served) -> Iterator[RawClient]:
    """A client of AMQP for frames of the test's own."""
    with RawClient(gateway.address) as client:
        yield client


@pytest.fixture
def unexpected() -> Iterator[list[str]]:
    """The errors that the gateway has logged: none is due to a client."""
    found: list[str] = []

    class Collecting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(self.format(record))

    handler = Collecting(logging.ERROR)
    loggers = [logging.getLogger(name) for name in ("pgqueue.gateway", "asyncio")]
    for logger in loggers:
        logger.addHandler(handler)
    yield found
    for logger in loggers:
        logger.removeHandler(handler)
    assert found == []


@pytest.fixture
def orders(client: QueueClient) -> QueueClient:
    client.create_queue("orders")
    return client


@pytest.fixture
def connect(gateway: Served, database: Database, orders: QueueClient) -> Iterator[Callable[[], RawClient]]:
    """Opens clients that have signed in."""
    opened: list[RawClient] = []
    key = key_of(database, "shop")

    def one() -> RawClient:
        client = RawClient(gateway.address)
        opened.append(client)
        assert client.sign_in("shop", key) == 0
        client.open()
        return client

    yield one
    for client in opened:
        client.socket.close()
