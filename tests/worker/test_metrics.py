"""The answer to a scrape of Prometheus: the worker's work and health, and the depth of the queue."""

from __future__ import annotations

import asyncio
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pgqueue import Message
from pgqueue.worker import exposition
from pgqueue.worker.exposition import Exposition
from pgqueue.worker.health import Health
from pgqueue.worker.probes import healthy_port
from tests.patience import eventually
from tests.worker.scene import Scene

LABELS = frozenset({("queue", "q")})


def read(text: bytes) -> dict[str, Any]:
    """The values by name; those of a histogram by bound, too."""
    return {
        sample.name + sample.labels.get("le", ""): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
        if sample.name.startswith("pgqueue")
    }


def exposed(scene: Scene, worker: Any, dsn: str | None = None) -> Exposition:
    return Exposition(worker._driver, dsn or scene.database.dsn)


@pytest.mark.core
def test_the_work_of_a_worker_is_counted(scene: Scene) -> None:
    async def handler(message: Any) -> None:
        await asyncio.sleep(0.02)
        if message.body == "bad":
            raise ValueError("no")

    scene.send("a", "b", "bad")
    with scene.working(handler) as running:
        eventually(lambda: (running.worker.tally.completed, running.worker.tally.failed) == (2, 1))
        said = read(exposed(scene, running.worker).text())
    assert said["pgqueue_messages_received_total"] == 3
    assert said["pgqueue_messages_completed_total"] == 2
    assert said["pgqueue_messages_failed_total"] == 1
    assert said["pgqueue_messages_lost_total"] == 0
    assert said["pgqueue_messages_timed_out_total"] == 0
    assert said["pgqueue_handling_seconds_count"] == said["pgqueue_handling_seconds_bucket+Inf"] == 3
    assert said["pgqueue_handling_seconds_bucket0.01"] == 0
    assert 0.06 <= said["pgqueue_handling_seconds_sum"] < 60


def test_the_health_of_a_worker_is_exposed(scene: Scene) -> None:
    go_on = threading.Event()

    async def handler(_: Any, tx: Any) -> None:
        while not go_on.is_set():
            await asyncio.sleep(0.01)

    scene.send(1, 2)
    with scene.working(handler, transaction="psycopg", concurrency=2) as running:
        try:
            eventually(lambda: running.worker.health().running == 2)
            said = read(exposed(scene, running.worker).text())
        finally:
            go_on.set()
    assert (said["pgqueue_worker_running"], said["pgqueue_worker_overdue"]) == (2, 0)
    assert said["pgqueue_worker_waiting"] == 0


async def nothing(_: Any) -> None:
    """Never called."""


def test_the_depth_of_the_queue_is_exposed(scene: Scene) -> None:
    scene.send(*range(6))
    first, second, _ = scene.queue.receive(max_messages=3)
    first.dead_letter("Unknown")
    second.abandon(delay=exposition.PATIENCE * 1_000)
    scene.run("update pgqueue.message set enqueued_time = enqueued_time - interval '1 hour'")
    said = read(exposed(scene, scene.make(nothing)).text())
    assert said["pgqueue_queue_ready"] == 3
    assert said["pgqueue_queue_locked"] == 1
    assert said["pgqueue_queue_scheduled"] == 1
    assert said["pgqueue_queue_dead_letters"] == 1
    assert 3_600 <= said["pgqueue_queue_oldest_age_seconds"] < 3_700


def test_an_empty_queue_has_no_age(scene: Scene) -> None:
    assert read(exposed(scene, scene.make(nothing)).text())["pgqueue_queue_oldest_age_seconds"] == 0


def test_every_sample_names_the_queue(scene: Scene) -> None:
    families = text_string_to_metric_families(exposed(scene, scene.make(nothing)).text().decode())
    ours = [sample for family in families for sample in family.samples if sample.name.startswith("pgqueue")]
    assert len(ours) > 20
    assert {sample.labels["queue"] for sample in ours} == {"q"}


def test_the_database_is_asked_once_in_a_while(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = exposed(scene, scene.make(nothing))
    assert read(metrics.text())["pgqueue_queue_ready"] == 0
    scene.send("a")
    assert read(metrics.text())["pgqueue_queue_ready"] == 0
    monkeypatch.setattr(exposition, "ASKED_EVERY", 0.0)
    assert read(metrics.text())["pgqueue_queue_ready"] == 1


@pytest.mark.parametrize("trouble", ["away", "no queue", "slow"])
def test_a_database_that_does_not_answer_is_left_out(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    dsn = None
    if trouble == "away":
        dsn = "postgresql://127.0.0.1:1/nowhere"
    elif trouble == "no queue":
        scene.client.delete_queue("q")
    blocker = scene.database.connect()
    if trouble == "slow":
        monkeypatch.setattr(exposition, "PATIENCE", exposition.PATIENCE / 10)
        blocker.execute("lock table pgqueue.message in access exclusive mode")
    said = read(exposed(scene, scene.make(nothing), dsn).text())
    blocker.close()
    assert said["pgqueue_messages_received_total"] == 0
    assert [name for name in said if name.startswith("pgqueue_queue")] == []


def test_metrics_of_handlers_are_there_too(scene: Scene) -> None:
    shipped = prometheus_client.Counter("shop_shipped", "Orders shipped so far.")
    try:
        shipped.inc(7)
        assert b"shop_shipped_total 7.0" in exposed(scene, scene.make(nothing)).text()
    finally:
        prometheus_client.REGISTRY.unregister(shipped)


def healthy() -> Health:
    return Health(is_stopping=False, running=0, waiting=0, overdue=0, loops={}, failing={}, paused=[])


def answer(scrape: Callable[[], bytes] | None) -> tuple[int, str, bytes]:
    with healthy_port(0, healthy, scrape) as port:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics?a=b", timeout=300) as response:
                return response.status, response.headers["Content-Type"], response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers["Content-Type"], error.read()


def test_a_scrape_is_answered_beside_the_health(scene: Scene) -> None:
    scene.queue.send(Message("a"))
    status, content_type, body = answer(exposed(scene, scene.make(nothing)).text)
    assert (status, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert read(body)["pgqueue_queue_ready"] == 1


def test_without_the_library_the_remedy_is_named(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "prometheus_client"]:
        monkeypatch.setitem(sys.modules, name, None)
    status, _, body = answer(exposed(scene, scene.make(nothing)).text)
    assert status == 501
    assert body == b"metrics need the extra otel: pip install 'pgqueue-tx[otel]'\n"


def test_a_worker_that_exposes_nothing_has_no_metrics() -> None:
    assert answer(None)[0] == 404
