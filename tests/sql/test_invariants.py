"""pgqueue.broken_invariants() describes in prose the violations that no constraint prevents."""

from __future__ import annotations

from datetime import timedelta

from pgqueue.testing import Database
from tests.sql.stage import SECOND, Stage

BROKEN = "select pgqueue.broken_invariants()"
IS_PASSED = "select cursor = 4 and awaited = '{}' from pgqueue.progress where lane = 1"

# Message 1 is dead, 2 is scheduled, 3 has come back and is free, 4 is locked and under watch, 5 is fresh.
DAMAGE = [
    (
        "update pgqueue.message set lock_token = null where sequence_number = 4",
        "message 4 of queue q is locked without a token",
    ),
    (
        "update pgqueue.message set locked_by = 'x' where sequence_number = 5",
        "message 5 of queue q has a holder without a token",
    ),
    ("update pgqueue.message set binary_body = '' where sequence_number = 5", "message 5 of queue q has 2 bodies"),
    ("update pgqueue.dead_letter set body = null", "dead letter 1 of queue q has 0 bodies"),
    ("update pgqueue.scheduled_message set body = null", "scheduled message 2 of queue q has 0 bodies"),
    (
        "update pgqueue.scheduled_message set lock_token = gen_random_uuid()",
        "scheduled message 2 of queue q has a holder, but cannot be received",
    ),
    (
        "update pgqueue.message set delivery_count = -1 where sequence_number = 5",
        "message 5 of queue q was delivered less than never",
    ),
    (
        "update pgqueue.message set delivery_count = 0 where sequence_number = 4",
        "message 4 of queue q has a holder, but was never delivered",
    ),
    (
        "update pgqueue.message set position = 99999 where sequence_number = 5",
        "message 5 of queue q is fresh, but does not stand at its number",
    ),
    ("update pgqueue.dead_letter set lane = 1", "dead letter 1 of queue q is fresh, but does not stand at its number"),
    (
        "update pgqueue.message set lane = 8 where sequence_number = 3",
        "message 3 of queue q is in a lane that is not open",
    ),
    (
        "update pgqueue.message set lane = 798 where sequence_number = 3",
        "message 3 of queue q is in a lane that is not open",
    ),
    (
        "update pgqueue.message set lane = 1202 where sequence_number = 3",
        "message 3 of queue q is in a lane that is not open",
    ),
    (
        "update pgqueue.message set lane = 1001 where sequence_number = 5",
        "message 5 of queue q is deferred, but in the lane of fresh messages",
    ),
    (
        "update pgqueue.scheduled_message set lane = 1, position = 99999",
        "scheduled message 2 of queue q is fresh, but does not stand at its number",
    ),
    ("update pgqueue.dead_letter set queue_id = 77", "dead letter 1 of queue 77 belongs to no queue"),
    ("update pgqueue.dead_letter set sequence_number = 5", "number 5 of queue 1 is that of 2 messages"),
    ("select setval('pgqueue.sequence_number', 3)", "queue q uses number 7, but the last that was handed out is 3"),
    (
        "select setval('pgqueue.sequence_number', 3)",
        "the progress of lane 0 of queue 1 has the horizon 7 beyond the last number handed out",
    ),
    ("update pgqueue.queue set lanes = '{0,1,2}'", "queue q has the fresh lanes {1} among the lanes {0,1,2}"),
    ("delete from pgqueue.progress where lane = 1", "lane 1 of queue q has no progress"),
    (
        "update pgqueue.progress set horizon = 0 where lane = 1",
        "the progress of lane 1 of queue 1 has the cursor 4 beyond the horizon 0",
    ),
    (
        "update pgqueue.progress set awaited = awaited || '{9}' where lane = 1",
        "the progress of lane 1 of queue 1 awaits transactions without knowing where",
    ),
    (
        "update pgqueue.progress set awaited = '{9}', awaited_above = '{5}' where lane = 1",
        "the progress of lane 1 of queue 1 awaits messages above the cursor 4",
    ),
    (
        "update pgqueue.front set reached = 7, first_number = 2 where kind = 'DEAD_LETTERED'",
        "dead letter 1 of queue q is before the front, where no receive looks",
    ),
    (
        "update pgqueue.front set reached = 7; update pgqueue.message set lane = 1000 where sequence_number = 3",
        "deferred message 3 of queue q is before the front, where no receive looks",
    ),
    (
        "update pgqueue.front set reached = 7, horizon = 6",
        "the front of what is DEFERRED in queue 1 has reached 7, beyond the horizon 6",
    ),
    (
        "update pgqueue.front set horizon = 8",
        "the front of what is DEFERRED in queue 1 has the horizon 8 beyond the last number handed out",
    ),
    (
        "update pgqueue.front set awaited = '{9}'",
        "the front of what is DEAD_LETTERED in queue 1 awaits transactions without knowing where",
    ),
    ("delete from pgqueue.watch", "message 4 of queue 1 is behind the cursor 4, and not under watch"),
    (
        "update pgqueue.watch set due = due + interval '1 hour'",
        "message 4 of queue 1 is locked until 2030-01-01 01:00:00+00, but watched until 2030-01-01 02:00:00+00",
    ),
    (
        "update pgqueue.scheduled_progress set due_from = '2031-01-01' where kind = 'WATCH'",
        (
            "message 4 of queue 1 is to be checked at 2030-01-01 01:00:00+00, "
            "but the watch list is looked through from 2031-01-01 00:00:00+00 on"
        ),
    ),
]


def test_broken_invariants_are_described(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.rows("set timezone = 'UTC'")
        ann.send("dead", "scheduled", "returned", "locked", "fresh")
        dead, scheduled, returned, _ = ann.receive(4, lock_duration=timedelta(hours=1))
        ann.settle("dead_letter", dead, reason="r")
        ann.abandon(scheduled, delay=timedelta(days=1))
        ann.abandon(returned)
        stage.passes(SECOND)
        # The cursor waits for transactions that are open anywhere on the server, of other tests too.
        while not ann.value(IS_PASSED):
            stage.passes(SECOND)
            ann.call("take_turn", queue="q")
        for damage, sentence in DAMAGE:
            assert ann.values(BROKEN) == []
            ann.begin()
            ann.rows(damage)
            assert sentence in ann.values(BROKEN), damage
            ann.rollback()
            ann.value("select setval('pgqueue.sequence_number', 7)")
