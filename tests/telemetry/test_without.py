"""Without OpenTelemetry, or with no provider set, everything works, and messages carry nothing."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from pgqueue import Message, telemetry
from tests.patience import eventually
from tests.telemetry.conftest import Told
from tests.worker.scene import Scene


@pytest.fixture(params=["not installed", "not imported", "no provider"])
def without(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]
    match request.param:
        case "not installed":
            for name in [*parts, "opentelemetry", "pgqueue.telemetry.enabled"]:
                monkeypatch.setitem(sys.modules, name, None)
        case "not imported":  # but another part of its namespace is
            for name in parts:
                monkeypatch.delitem(sys.modules, name)
            monkeypatch.setitem(sys.modules, "opentelemetry", ModuleType("opentelemetry"))


@pytest.mark.usefixtures("without")
@pytest.mark.parametrize("batch", [None, 1, 3])
def test_everything_works_without(scene: Scene, batch: int | None) -> None:
    handled = []

    async def alone(message: Any) -> None:
        handled.append(message.application_properties)

    async def with_transaction(message: Any, tx: Any) -> None:
        handled.append(message.application_properties)

    with scene.queue.sender() as sender:
        sender.send(Message(1)).result()
    scene.queue.send(Message(2))
    scene.send(3, 4)
    options: Any = {} if batch is None else {"transaction": "psycopg", "transaction_batch": batch}
    with scene.working(alone if batch is None else with_transaction, **options):
        eventually(lambda: len(handled) == 4 and scene.left() == [])
    assert handled == [None] * 4


@pytest.mark.usefixtures("without")
def test_nothing_is_recorded_without_opentelemetry() -> None:
    assert telemetry.recorder() is telemetry.DISABLED


def test_a_recorder_is_used_with_opentelemetry(told: Told) -> None:
    assert telemetry.recorder() is not telemetry.DISABLED
    assert telemetry.recorder() is telemetry.recorder()
