"""One server for all these tests of a process; each has a database of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.sources import FACES, Sources
from tests.deadlines.server import Silenced
from tests.deadlines.server import silenced as silenced_server


@pytest.fixture(scope="session")
def silenced() -> Iterator[Silenced]:
    with silenced_server() as silenced:
        yield silenced


@pytest.fixture(params=FACES)
def sources(request: pytest.FixtureRequest, silenced: Silenced) -> Iterator[Sources]:
    with silenced.sources(FACES[request.param]) as sources:
        yield sources
