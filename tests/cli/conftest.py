"""The command line, pointed at the database of the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pgqueue import QueueClient
from pgqueue.testing import Database
from tests.cli.command_line import CommandLine


@pytest.fixture
def pgqueue(database: Database, tmp_path: Path) -> CommandLine:
    """The command line, with PGQUEUE_DSN naming the database of the test."""
    return CommandLine(tmp_path, PGQUEUE_DSN=database.dsn, PGQUEUE_SCHEMA=database.schema)


@pytest.fixture
def unconfigured(tmp_path: Path) -> CommandLine:
    """The command line where no database is named."""
    return CommandLine(tmp_path)


@pytest.fixture
def client(database: Database) -> Iterator[QueueClient]:
    with QueueClient(database.dsn) as client:
        client.create_queue("orders")
        yield client
