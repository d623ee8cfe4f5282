"""The sweeper, from Python, in a database of each test's own: it looks after all queues that there are.

A sweep does the same from every source; only the call differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from pgqueue import LockLostError, Message, SweepReport
from pgqueue.testing import Database
from tests.contract.sources import FACES
from tests.contract.world import MINUTE, OWN, SECOND, Mode, World


@pytest.fixture(params=OWN, ids=str)
def own(request: pytest.FixtureRequest, database: Database) -> Iterator[World]:
    yield from _world(request.param, database)


@pytest.fixture(params=FACES)
def either(request: pytest.FixtureRequest, database: Database) -> Iterator[World]:
    yield from _world(Mode(request.param, "dsn"), database)


def _world(mode: Mode, database: Database) -> Iterator[World]:
    with closing(FACES[mode.face](database)) as sources:
        yield World(mode, sources)


def test_messages_delivered_too_often_are_dead_lettered_without_a_receive(either: World) -> None:
    either.client.update_queue(either.name, max_delivery_count=1)
    received = either.several_locked(2)
    either.move_clock(2 * MINUTE)
    report = either.client.sweep()
    assert report.dead_lettered == 2
    assert [dead.body for dead in either.dead()] == [0, 1]
    with pytest.raises(LockLostError):
        received[0].complete()


def test_a_due_message_is_activated(either: World) -> None:
    either.locked().abandon(delay=SECOND)
    assert either.client.get_queue_runtime_properties(either.name).scheduled == 1
    either.move_clock(2 * SECOND)
    assert either.client.sweep().activated == 1
    assert either.client.get_queue_runtime_properties(either.name).scheduled == 0


def test_an_expired_message_is_removed_without_a_receive(own: World) -> None:
    own.queue.send(Message("brief", time_to_live=SECOND))
    own.move_clock(2 * SECOND)
    assert own.client.get_queue_runtime_properties(own.name).expired == 1
    assert own.client.sweep(dry_run=True).expired == 1
    assert own.client.sweep().expired == 1
    assert own.found() == []


def test_each_of_many_queues_is_swept_once(either: World) -> None:
    either.run("select pgqueue.create_queue('many-' || number) from generate_series(1, 1000) as number")
    either.run("select pgqueue.send(name, '1', time_to_live => '1 second') from pgqueue.queues where name ~ 'many'")
    either.client.create_schedule("s", queue=either.name, message=Message("a"), every=MINUTE)
    either.move_clock(2 * MINUTE)
    for dry_run in (True, False):
        report = either.client.sweep(dry_run=dry_run)
        assert (report.expired, report.activated) == (1000, 1)
    assert either.client.sweep() == SweepReport()


def test_a_sweep_ends_while_another_one_runs(either: World) -> None:
    either.run("select pgqueue.create_queue('many-' || number) from generate_series(1, 500) as number")
    either.run("select pgqueue.send(name, '1', time_to_live => '1 second') from pgqueue.queues")
    either.move_clock(2 * SECOND)
    with either.database.connect(autocommit=True) as other:
        (found,) = other.execute("select pg_get_functiondef('pgqueue.sweep'::regproc)").fetchall()
        other.execute("create sequence public.sweeps")
        other.execute("grant usage on sequence public.sweeps to public")
        once = "nextval('public.sweeps') = 1"
        other.execute(found[0].replace("not pgqueue._only_one('pgqueue.sweep_lock')", once))
        assert either.client.sweep() == SweepReport()
    assert either.client.sweep().expired == 501


def test_a_message_in_work_is_left_alone(either: World) -> None:
    either.client.update_queue(either.name, max_delivery_count=1)
    received = either.locked()
    either.client.sweep()
    received.complete()
    assert either.dead() == []


def test_a_dry_run_only_counts(either: World) -> None:
    either.client.update_queue(either.name, max_delivery_count=1)
    either.locked()
    either.move_clock(2 * MINUTE)
    assert either.client.sweep(dry_run=True).dead_lettered == 1
    assert either.dead() == []
    assert either.client.sweep().dead_lettered == 1
    assert len(either.dead()) == 1


def test_a_sweep_goes_on_until_nothing_is_left_a_thousand_in_each_transaction(own: World) -> None:
    own.client.update_queue(own.name, max_delivery_count=1)
    own.several_locked(1000)
    own.several_locked(500)
    own.move_clock(2 * MINUTE)
    assert own.client.sweep().dead_lettered == 1500
    sizes = """select count(*) from pgqueue.dead_letter
                where queue_id = (select id from pgqueue.queue where name = %s) group by xmin::text"""
    in_each = [count for (count,) in own.look(sizes, own.name)]
    assert sum(in_each) == 1500
    assert max(in_each) <= 1000


def test_while_another_sweeps_there_is_nothing_to_do(own: World) -> None:
    own.client.update_queue(own.name, max_delivery_count=1)
    own.locked()
    own.move_clock(2 * MINUTE)
    with own.database.connect() as another:
        another.execute("select pgqueue.sweep(max_messages => 1)")
        assert own.client.sweep() == SweepReport()
        another.rollback()
    assert own.client.sweep().dead_lettered == 1
    assert len(own.dead()) == 1
