"""Where the tests of the engine's SQL have their databases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pgqueue.testing import Database
from pgqueue.testing.hosts import choose
from pgqueue.testing.plugin import SharedServer
from tests.quiet import QuietServer


@pytest.fixture
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database on a quiet server, unless a server is given: turns await the transactions of a whole server."""
    name = "database_server" if choose() == "given" else "quiet_server"
    server: SharedServer | QuietServer = request.getfixturevalue(name)
    with server.database(server.template) as database:
        yield database
