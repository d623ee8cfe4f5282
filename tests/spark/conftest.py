"""One Spark session for the tests of a process: two threads, one more try for a task, and little else; and a server of
their own: who follows the history waits for the oldest transaction on the server, those of other tests too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import pgqueue.spark
from pgqueue.testing import Database
from tests.quiet import QuietServer
from tests.spark import small

#: A test that hangs is ended by this. A test that is ten times slower on a busy machine does not hang.
HANGS_AFTER_SECONDS = 1800


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In a run of everything these are the first: one process has them all to begin with, so there is one session."""
    for item in items:
        if _is_here(item):
            item.add_marker(pytest.mark.timeout(HANGS_AFTER_SECONDS), append=False)
    items.sort(key=_is_here, reverse=True)


def _is_here(item: pytest.Item) -> bool:
    return item.nodeid.startswith("tests/spark/")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session that ``pgqueue.spark.session()`` builds, on two threads."""
    warehouse = tmp_path_factory.mktemp("warehouse")
    spark = pgqueue.spark.session(
        master="local[2,2]", config={**small.CONFIGURATION, "spark.sql.warehouse.dir": str(warehouse)}
    )
    yield spark
    spark.stop()


@pytest.fixture
def database(quiet_server: QuietServer) -> Iterator[Database]:
    """A database of this test's own, migrated, with a clock that can be moved."""
    with quiet_server.database() as database:
        yield database
