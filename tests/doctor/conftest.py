from __future__ import annotations

from collections.abc import Iterator

import pytest

from pgqueue.testing import Database
from tests.doctor.scene import Scene
from tests.quiet import QuietServer


@pytest.fixture
def scene(database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """A database on the server that all tests share."""
    scene = Scene(database, monkeypatch)
    with scene.open:
        yield scene


@pytest.fixture
def quiet_scene(quiet_server: QuietServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """A database on a server with autovacuum switched off."""
    with quiet_server.database() as database:
        scene = Scene(database, monkeypatch)
        with scene.open:
            yield scene
