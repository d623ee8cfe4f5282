"""An examination as a whole: of a healthy database, by roles with few rights, and of one that is in the way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Thread
from uuid import uuid4

import pytest
from psycopg.conninfo import make_conninfo

from pgqueue import Message, QueueClient, Worker
from pgqueue.doctor import Examination, examine, examining
from pgqueue.doctor.registry import CHECKS
from pgqueue.schema import files
from pgqueue.testing import Database
from tests.doctor.scene import MINUTE, Scene, found
from tests.quiet import QuietServer

SNAPSHOT = "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint"


@contextmanager
def traffic(database: Database) -> Iterator[Event]:
    """Senders and a worker at work; the event is set once a hundred messages were handled."""
    busy, done, handled = Event(), Event(), []

    def handle(message: object) -> None:
        handled.append(message)
        if len(handled) == 100:
            busy.set()

    def keep_sending() -> None:
        while not done.wait(0.005):
            orders.send_batch([Message(number) for number in range(10)])

    with QueueClient(database.dsn) as client:
        client.create_queue("orders", retain_history=timedelta(hours=1), requires_duplicate_detection=True)
        client.create_schedule(
            "often", queue="orders", message=Message("now"), cron="* * * * *", timezone="Europe/Zurich"
        )
        orders = client.queue("orders")
        worker = Worker(orders, handle)
        threads = [Thread(target=worker.run), Thread(target=keep_sending)]
        for thread in threads:
            thread.start()
        try:
            yield busy
        finally:
            done.set()
            worker.stop()
            for thread in threads:
                thread.join()


@pytest.mark.core
def test_nothing_is_found_in_a_healthy_database_with_traffic(database: Database) -> None:
    with traffic(database) as busy:
        assert busy.wait(60)
        for _ in range(3):
            examination = examine(database.direct, invariants=True)
            assert list(found(examination)) == []
            assert [result.unseen for result in examination.results if result.unseen] == []
            assert examination.is_well


def test_nothing_is_found_in_unused_queues(scene: Scene) -> None:
    scene.orders.send(Message(1))
    scene.orders.receive()[0].complete()
    scene.client.create_queue("another")
    assert list(found(examine(scene.database.direct))) == []


def test_messages_locked_for_long_do_not_raise_no_receivers(scene: Scene) -> None:
    scene.orders.send_batch([Message(number) for number in range(3)])
    scene.orders.receive(lock_duration=60 * MINUTE)
    scene.passes(timedelta(seconds=2))
    scene.run("select pgqueue.take_turn('orders')")
    scene.passes(10 * MINUTE)
    assert [check for check, _ in found(examine(scene.database.direct))] == ["clock"]


@pytest.mark.parametrize("settle", ["complete", "defer"])
def test_a_session_that_its_dead_consumer_has_emptied_does_not_wait_for_another(scene: Scene, settle: str) -> None:
    scene.client.create_queue("carts", requires_session=True)
    carts = scene.client.queue("carts")
    carts.send(Message(1, session_id="ann"))
    session = carts.accept_session()
    assert session is not None
    (received,) = session.receive()
    getattr(received, settle)()
    scene.passes(60 * MINUTE)
    assert [check for check, _ in found(examine(scene.database.direct))] == ["clock"]


def test_nothing_is_changed(quiet_server: QuietServer) -> None:
    with quiet_server.database() as database, database.connect(autocommit=True) as connection:
        before = connection.execute(SNAPSHOT).fetchone()
        examine(database.dsn, invariants=True)
        assert connection.execute(SNAPSHOT).fetchone() == before


@pytest.fixture
def role(scene: Scene) -> Iterator[str]:
    name = f"test_{uuid4().hex[:12]}"
    scene.run(f"create role {name} login")
    yield name
    scene.run(f"drop role {name}")


def unseen(scene: Scene, role: str) -> dict[str, str | None]:
    examination = examine(make_conninfo(scene.database.direct, user=role))
    assert list(found(examination)) == []
    return {result.check: result.unseen for result in examination.results if result.unseen}


def test_a_role_without_rights_gets_the_grants_it_needs_to_see_the_queues(scene: Scene, role: str) -> None:
    lacking = unseen(scene, role)
    assert {"no-receivers", "expired-locks", "dead-letters", "claim-plan", "unswept-history"} <= lacking.keys()
    assert set(lacking.values()) == {f'grant pg_read_all_stats to "{role}";', f'grant pgqueue_monitor to "{role}";'}


def test_a_monitor_sees_all_but_the_sessions_of_others(scene: Scene, role: str) -> None:
    scene.client.grant_monitor(role)
    sessions = f'grant pg_read_all_stats to "{role}";'
    assert unseen(scene, role) == {"old-transaction": sessions, "awaited-transaction": sessions}
    scene.run(sessions)
    assert unseen(scene, role) == {}


def test_a_monitor_finds_what_a_superuser_finds(scene: Scene, role: str) -> None:
    scene.client.grant_monitor(role)
    scene.run(f"grant pg_read_all_stats to {role}")
    scene.orders.send(Message(1))
    scene.orders.receive()
    scene.passes(10 * MINUTE)
    assert findings(examine(make_conninfo(scene.database.direct, user=role))) == findings(
        examine(scene.database.direct)
    )


def findings(examination: Examination) -> list[tuple[str, str]]:
    return [(check, finding.what) for check, finding in found(examination)]


def test_a_check_that_has_to_wait_is_a_finding_and_the_others_go_on(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examining, "BOUNDS", "set local lock_timeout = '10ms'")
    scene.session().execute("lock table pgqueue.alembic_version")
    examination = examine(scene.database.direct)
    assert findings(examination) == [
        ("schema-version", "This could not be examined: canceling statement due to lock timeout")
    ]
    assert examination.results[-1].check == CHECKS[-1].name


def test_a_schema_without_what_a_check_reads_is_to_be_migrated(scene: Scene) -> None:
    scene.run("drop view pgqueue._upkeep", "update pgqueue.installation set definitions_digest = 'older'")
    examination = examine(scene.database.direct)
    assert [check for check, _ in found(examination)] == ["schema-version"]
    lacking = {result.check: result.unseen for result in examination.results if result.unseen}
    assert set(lacking.values()) == {examining.NEEDS_MIGRATION}
    assert {"no-receivers", "time-zone"} <= lacking.keys()


def test_the_claim_that_is_planned_is_that_of_a_receive() -> None:
    texts = {each.name: " ".join(each.sql.split()) for each in files.definitions()}
    receive, planned = texts["receive"], texts["_claim_plan"]
    for variable, value in {"source.id": "1", "max_messages": "10", "moment": "now()"}.items():
        receive = receive.replace(variable, value)
    claims = [re.findall(r"lateral \( (select ctid as place, .*?)\) as free", text) for text in (receive, planned)]
    assert len(claims[0]) == 1
    assert claims[0] == claims[1]
    settings = [re.findall(r"\bset (\w+ = \w+)", text.partition("as $$")[0]) for text in (receive, planned)]
    assert settings[0] == settings[1]
