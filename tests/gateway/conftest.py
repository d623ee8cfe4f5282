from __future__ import annotations

import uuid
from collections.abc import Iterator

import psycopg
import pytest
from azure.servicebus import ServiceBusClient

from pgqueue import QueueClient
from pgqueue.testing import Database
from tests.gateway.raw import RawClient
from tests.gateway.serving import Served, served


@pytest.fixture
def shop(database: Database) -> Iterator[str]:
    """A role that may do everything, with the key ``shop``."""
    role = f"shop_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute(f"create role {role}".encode())
        connection.execute("select pgqueue.grant_admin(%s), pgqueue.create_gateway_key('shop', %s)", [role, role])
        yield role
        connection.execute(f"drop owned by {role}; drop role {role}".encode())


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
    """A client of AMQP that says what the test wants."""
    with RawClient(gateway.address) as client:
        yield client
