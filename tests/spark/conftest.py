"""One Spark session for the tests of a process: two threads, one more try for a task, and little else; and a server of
their own: who follows the history waits for the oldest transaction on the server, those of other tests too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import pgqueue.spark
from pgqueue.testing import Database, ThrowawayServer
from pgqueue.testing.database import create_template, created
from pgqueue.testing.hosts import binaries
from tests.spark import small

#: A test that hangs ends in the end. What a busy machine takes ten times as long for is slow, and does not hang.
HANGS_AFTER_SECONDS = 1800


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(HANGS_AFTER_SECONDS), append=False)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session that ``pgqueue.spark.session()`` builds, on two threads."""
    warehouse = tmp_path_factory.mktemp("warehouse")
    spark = pgqueue.spark.session(
        master="local[2,2]", config={**small.CONFIGURATION, "spark.sql.warehouse.dir": str(warehouse)}
    )
    yield spark
    spark.stop()


@pytest.fixture(scope="session")
def quiet_server() -> Iterator[tuple[str, str]]:
    """A server for one process of the test run, and a migrated template on it."""
    server = ThrowawayServer(binaries())
    try:
        server.create()
        server.start()
        yield server.dsn(), create_template(server.dsn())
    finally:
        server.remove()


@pytest.fixture
def database(quiet_server: tuple[str, str]) -> Iterator[Database]:
    """A database of this test's own, migrated, with a clock that can be moved."""
    with created(*quiet_server) as database:
        yield database
