"""The scene of these tests: a queue, a table of effects, and a worker of either kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pgqueue.testing import Database
from tests.worker.scene import FACES, Scene


@pytest.fixture(params=FACES)
def scene(request: pytest.FixtureRequest, database: Database) -> Iterator[Scene]:
    with Scene(database, request.param) as scene:
        yield scene
