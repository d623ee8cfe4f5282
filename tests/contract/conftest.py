"""The worlds in which the contract has to hold: every source, every mode, both faces."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pgqueue.testing import Database
from pgqueue.testing.plugin import SharedServer
from tests.contract.sources import FACES, TWO_PHASE, WORKPLACES, Sources
from tests.contract.world import OWN, SHARED, Mode, World, prepare


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


@pytest.fixture(params=OWN + SHARED, ids=str)
def world(request: pytest.FixtureRequest, faces: dict[str, Sources]) -> World:
    """Every mode: verbs in a transaction of their own, and in the caller's."""
    return _world(request.param, faces)


@pytest.fixture(params=OWN, ids=str)
def own(request: pytest.FixtureRequest, faces: dict[str, Sources]) -> World:
    """Verbs in a transaction of their own, by a client made of each source."""
    return _world(request.param, faces)


@pytest.fixture(params=SHARED, ids=str)
def caller(request: pytest.FixtureRequest, faces: dict[str, Sources]) -> World:
    """Verbs in a transaction of the caller's, of each kind."""
    return _world(request.param, faces)


@pytest.fixture(params=[Mode(face, "dsn", kind) for face in FACES for kind in TWO_PHASE], ids=str)
def prepared(request: pytest.FixtureRequest, faces: dict[str, Sources]) -> World:
    """Verbs in a transaction of the caller's that is to be prepared."""
    return _world(request.param, faces)


@pytest.fixture(params=FACES)
def either(request: pytest.FixtureRequest, faces: dict[str, Sources]) -> World:
    """One world of each face, where the source makes no difference."""
    return _world(Mode(request.param, "dsn"), faces)


@pytest.fixture(params=WORKPLACES)
def workplace(request: pytest.FixtureRequest) -> str:
    """The sources on which a transaction for the work can be begun."""
    kind: str = request.param
    return kind


def _world(mode: Mode, faces: dict[str, Sources]) -> World:
    return World(mode, faces[mode.face])
