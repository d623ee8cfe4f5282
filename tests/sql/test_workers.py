"""The rows of workers: who may write one, how its state is called, and when it is removed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege, LockNotAvailable
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.sql.stage import Stage

Connection = psycopg.Connection[dict[str, Any]]

MINUTE = timedelta(minutes=1)


@pytest.fixture
def connection(database: Database) -> Iterator[Connection]:
    with database.connect(autocommit=True, row_factory=dict_row) as connection:
        connection.execute("select pgqueue.create_queue('orders'), pgqueue.create_queue('returns')")
        yield connection


@pytest.fixture
def roles(connection: Connection) -> Iterator[tuple[str, str]]:
    """Two roles; both may receive orders, and the second one returns."""
    names = tuple(f"test_{uuid4().hex[:12]}" for _ in range(2))
    for name in names:
        connection.execute(f"create role {name}; select pgqueue.grant_receive('orders', '{name}')".encode())
    connection.execute(f"select pgqueue.grant_receive('returns', '{names[1]}')".encode())
    yield names[0], names[1]
    connection.execute("reset role")
    for name in names:
        connection.execute(f"drop role {name}".encode())


def beat(connection: Connection, worker: UUID, queues: str = "{orders}", **given: Any) -> None:
    more = "".join(f", {name} => %({name})s" for name in given)
    call = f"select pgqueue.heartbeat(%(worker)s, 'host', 7, '1.0', %(queues)s, 8{more})"
    connection.execute(call.encode(), {"worker": worker, "queues": queues, **given})


def shown(connection: Connection, *columns: str) -> list[tuple[Any, ...]]:
    return [
        tuple(row.values())
        for row in connection.execute(f"select {', '.join(columns)} from pgqueue.workers".encode()).fetchall()
    ]


@pytest.mark.parametrize(
    ("given", "state"),
    [
        ({}, "SERVING"),
        ({"failing": Jsonb({"claims": "gone"})}, "FAILING"),
        ({"failing": Jsonb({"claims": "gone"}), "is_alive": False}, "STUCK"),
        ({"is_alive": False, "is_stopping": True}, "STOPPING"),
    ],
    ids=str,
)
def test_a_worker_has_its_reported_state_until_it_was_not_seen_for_a_minute(
    connection: Connection, database: Database, given: dict[str, Any], state: str
) -> None:
    worker = uuid4()
    beat(connection, worker)
    beat(connection, worker, **given, handled=3, failed=1, running=2)
    assert shown(connection, "name", "state", "handled", "failed", "running") == [("host:7", state, 3, 1, 2)]
    database.move_clock(MINUTE + timedelta(seconds=1))
    assert shown(connection, "state", "not_seen_for >= interval '1 minute'") == [("MISSING", True)]
    beat(connection, worker, **given)
    assert shown(connection, "state") == [(state,)]


def test_the_start_of_a_worker_follows_from_its_uptime(connection: Connection) -> None:
    beat(connection, uuid4(), uptime=timedelta(hours=1))
    assert shown(connection, "seen_at - started_at between interval '59 minutes' and interval '61 minutes'") == [
        (True,)
    ]


@pytest.mark.parametrize("queues", ["{}", None, f"{{{','.join(['orders'] * 1001)}}}"], ids=["none", "null", "many"])
def test_it_serves_a_queue_and_not_too_many(connection: Connection, queues: Any) -> None:
    with pytest.raises(psycopg.Error, match="queues must be 1 to 1000 names"):
        beat(connection, uuid4(), queues)
    with pytest.raises(psycopg.Error, match="gone"):
        beat(connection, uuid4(), "{orders,gone}")


def test_only_its_role_writes_its_row(connection: Connection, roles: tuple[str, str]) -> None:
    worker = uuid4()
    connection.execute(f"set role {roles[0]}".encode())
    beat(connection, worker)
    with pytest.raises(InsufficientPrivilege, match=r"may not call pgqueue\.heartbeat for queue returns"):
        beat(connection, uuid4(), "{orders,returns}")
    connection.execute(f"set role {roles[1]}".encode())
    with pytest.raises(InsufficientPrivilege, match=f"worker {worker} is one of role {roles[0]}, not of {roles[1]}"):
        beat(connection, worker, failed=7)
    remove = "select pgqueue.remove_worker(%s) as removed"
    assert connection.execute(remove, [worker]).fetchall() == [{"removed": False}]
    connection.execute(f"set role {roles[0]}".encode())
    assert shown(connection, "id", "role", "failed") == [(worker, roles[0], 0)]
    assert connection.execute(remove, [worker]).fetchall() == [{"removed": True}]
    beat(connection, worker)
    connection.execute("reset role")
    assert connection.execute(remove, [worker]).fetchall() == [{"removed": True}], "administrators may"


def test_queues_of_others_and_errors_about_them_are_not_shown(connection: Connection, roles: tuple[str, str]) -> None:
    failing = Jsonb({"returns: claims": "gone"})
    beat(connection, uuid4(), "{orders,returns}", failing=failing)
    beat(connection, uuid4(), "{returns}")
    connection.execute(f"set role {roles[1]}".encode())
    assert len(shown(connection, "id")) == 2
    connection.execute(f"set role {roles[0]}".encode())
    assert shown(connection, "queues", "failing") == [(["orders"], None)]


@pytest.mark.parametrize("ahead", [timedelta(0), timedelta(days=366)], ids=["as ever", "the clock was a year ahead"])
def test_a_sweep_removes_what_was_not_seen_for_an_hour(
    connection: Connection, database: Database, ahead: timedelta
) -> None:
    database.move_clock(ahead)
    gone, alive = uuid4(), uuid4()
    for worker in (gone, alive):
        beat(connection, worker)
    database.move_clock(-ahead + 61 * MINUTE)
    beat(connection, alive)
    assert connection.execute("select forgotten from pgqueue.sweep(dry_run => true)").fetchall() == [{"forgotten": 1}]
    assert len(shown(connection, "id")) == 2
    assert connection.execute("select forgotten, more from pgqueue.sweep()").fetchall() == [
        {"forgotten": 1, "more": True}
    ]
    assert shown(connection, "id") == [(alive,)]
    assert connection.execute("select * from pgqueue.sweep()").fetchall() == []


def test_a_new_worker_removes_lost_ones_without_a_sweep(connection: Connection, database: Database) -> None:
    beat(connection, uuid4())
    database.move_clock(61 * MINUTE)
    worker = uuid4()
    beat(connection, worker)
    assert shown(connection, "id") == [(worker,)]


def test_a_role_registers_so_many_and_no_more(connection: Connection, roles: tuple[str, str]) -> None:
    connection.execute(f"set role {roles[0]}".encode())
    worker = uuid4()
    beat(connection, worker)
    connection.execute("reset role")
    connection.execute(
        """insert into pgqueue.registered_worker
           select gen_random_uuid(), role from pgqueue.worker, generate_series(1, 9999)"""
    )
    connection.execute(f"set role {roles[0]}".encode())
    with pytest.raises(psycopg.Error, match="has registered 10000 workers, the most it may"):
        beat(connection, uuid4())
    beat(connection, worker, failed=1)
    connection.execute(f"set role {roles[1]}".encode())
    beat(connection, uuid4())


HEARTBEAT = "select pgqueue.heartbeat(%(worker)s, 'host', 7, '1.0', '{q}', 8, failed => %(failed)s)"


def test_a_heartbeat_does_not_wait_for_locks(database: Database) -> None:
    """Its caller renews locks, too."""
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        worker = uuid4()
        ann.rows(HEARTBEAT, worker=worker, failed=1)
        bob.begin()
        bob.rows("update pgqueue.worker set failed = 7")
        with not_waiting():
            ann.rows(HEARTBEAT, worker=worker, failed=2)
        bob.commit()
        assert ann.values("select failed from pgqueue.workers") == [7]


def test_it_waits_a_tenth_of_a_second_for_the_table(connection: Connection, database: Database) -> None:
    worker = uuid4()
    beat(connection, worker)
    with database.connect() as other:
        other.execute("lock table pgqueue.worker")
        with pytest.raises(LockNotAvailable):
            beat(connection, worker)


def test_forgetting_workers_does_not_wait_for_any_of_them(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        worker, another = uuid4(), uuid4()
        ann.rows(HEARTBEAT, worker=worker, failed=1)
        stage.passes(timedelta(hours=2))
        bob.begin()
        bob.rows(HEARTBEAT, worker=worker, failed=2)
        with not_waiting():
            ann.rows(HEARTBEAT, worker=another, failed=0)
        bob.commit()
        assert set(ann.values("select id from pgqueue.workers")) == {worker, another}


@contextmanager
def not_waiting() -> Iterator[None]:
    try:
        yield
    except LockNotAvailable:
        raise AssertionError("it waited for a row") from None
