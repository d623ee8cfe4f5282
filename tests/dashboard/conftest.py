from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import uvicorn
from fastapi.testclient import TestClient

from pgqueue import QueueClient
from pgqueue.dashboard.app import create_app
from pgqueue.dashboard.settings import Settings
from pgqueue.testing import Database
from tests.dashboard.scene import fill, publish, recur

Open = Callable[..., TestClient]


@pytest.fixture
def client(database: Database) -> Iterator[QueueClient]:
    with QueueClient(database.dsn) as client:
        yield client


@pytest.fixture
def shop(database: Database, client: QueueClient) -> QueueClient:
    """A client of queues with something in every state."""
    recur(client)
    publish(client)
    fill(database, client)
    return client


@pytest.fixture
def opened(database: Database) -> Iterator[Open]:
    """Opens dashboards of the test's database, with the settings that are given."""
    with ExitStack() as stack:

        def open_one(**settings: Any) -> TestClient:
            app = create_app(Settings(database.dsn, schema=database.schema, **settings))
            return stack.enter_context(TestClient(app, base_url="http://localhost", follow_redirects=False))

        yield open_one


@pytest.fixture
def site(opened: Open) -> TestClient:
    """A dashboard that is only looked at."""
    return opened()


@pytest.fixture
def writable(opened: Open) -> TestClient:
    """A dashboard that allows actions."""
    return opened(is_writable=True)


@pytest.fixture
def served(database: Database) -> Iterator[str]:
    """The address of a dashboard that allows actions, for a browser."""
    config = uvicorn.Config(
        create_app(Settings(database.dsn, is_writable=True)),
        port=0,
        log_level="warning",
        proxy_headers=False,
        timeout_graceful_shutdown=1,
    )
    listening = config.bind_socket()
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join()
