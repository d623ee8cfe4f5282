"""The sweeper, from Python. Other tests have queues in this database, so only what concerns the own one is certain."""

from __future__ import annotations

import pytest

from pgqueue import LockLostError, SweepReport
from tests.contract.world import MINUTE, SECOND, World


def test_what_was_delivered_too_often_is_dead_lettered_without_a_receive(own: World) -> None:
    own.client.update_queue(own.name, max_delivery_count=1)
    received = own.several_locked(2)
    own.move_clock(2 * MINUTE)
    report = own.client.sweep()
    assert report.dead_lettered >= 2
    assert [dead.body for dead in own.dead()] == [0, 1]
    with pytest.raises(LockLostError):
        received[0].complete()


def test_what_is_due_is_activated(own: World) -> None:
    own.locked().abandon(delay=SECOND)
    own.move_clock(2 * SECOND)
    assert own.client.get_queue_runtime_properties(own.name).scheduled == 1
    assert own.client.sweep().activated >= 1
    assert own.client.get_queue_runtime_properties(own.name).scheduled == 0


def test_who_is_at_work_is_left_alone(own: World) -> None:
    own.client.update_queue(own.name, max_delivery_count=1)
    received = own.locked()
    own.client.sweep()
    received.complete()
    assert own.dead() == []


def test_a_dry_run_only_counts(own: World) -> None:
    own.client.update_queue(own.name, max_delivery_count=1)
    own.locked()
    own.move_clock(2 * MINUTE)
    assert own.client.sweep(dry_run=True).dead_lettered >= 1
    assert own.dead() == []
    assert own.client.sweep().dead_lettered >= 1
    assert len(own.dead()) == 1


def test_a_sweep_goes_on_until_nothing_is_left_a_thousand_in_each_transaction(own: World) -> None:
    own.client.update_queue(own.name, max_delivery_count=1)
    own.several_locked(1000)
    own.several_locked(500)
    own.move_clock(2 * MINUTE)
    assert own.client.sweep().dead_lettered >= 1500
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
    assert own.client.sweep().dead_lettered >= 1
    assert len(own.dead()) == 1
