"""The scene of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pgqueue.testing import Database
from tests.chaos.proxy import Proxy
from tests.chaos.scene import Scene, staged


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "chaos: kills connections, processes and servers under load; takes seconds")


@pytest.fixture
def scene(database: Database) -> Iterator[Scene]:
    with staged(database) as scene:
        yield scene


@pytest.fixture
def proxy(database: Database) -> Iterator[Proxy]:
    with Proxy(database.dsn) as proxy:
        yield proxy
