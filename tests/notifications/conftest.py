"""The places in which notifications have to work: both faces, and recipients of each kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pgqueue.testing import Database
from pgqueue.testing.plugin import SharedServer
from tests.contract.sources import FACES, Sources
from tests.contract.world import Mode, prepare
from tests.notifications.place import Place


@pytest.fixture(scope="session")
def shared_database(database_server: SharedServer) -> Iterator[Database]:
    """One database for all these tests of a process; each has a queue of its own."""
    with database_server.database(database_server.template) as database:
        prepare(database)
        yield database


@pytest.fixture(scope="session")
def faces(shared_database: Database) -> Iterator[dict[str, Sources]]:
    faces = {name: sources(shared_database) for name, sources in FACES.items()}
    yield faces
    for sources in faces.values():
        sources.close()


@pytest.fixture(params=FACES)
def place(request: pytest.FixtureRequest, faces: dict[str, Sources]) -> Place:
    return Place(Mode(request.param, "dsn"), faces[request.param])
