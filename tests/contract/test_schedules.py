"""Schedules, from Python: cron expressions and intervals, what is due next, pauses, and what is refused.

Other tests have queues in this database, and move its clock: times count from the moment of the test.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from pgqueue import CatchUp, Message, Schedule
from pgqueue.errors import (
    InvalidArgumentError,
    MessageNotReadableError,
    QueueNotFoundError,
    ScheduleAlreadyExistsError,
    ScheduleNotFoundError,
)
from tests.contract.world import MINUTE, SECOND, World
from tests.fields import TEXT_VALUES

DAY = timedelta(days=1)

ZURICH = "Europe/Zurich"


def create(world: World, **arguments: Any) -> Schedule:
    """A schedule with the name of the test's queue."""
    given: dict[str, Any] = {"queue": world.name, "message": Message({"n": 1})}
    schedule: Schedule = world.client.create_schedule(world.name, **given | arguments)
    return schedule


def due_times_sent(world: World) -> list[datetime]:
    """The due times in the ids of the messages that are in the queue."""
    ids = [message.message_id for message in world.found()]
    assert all(each is not None and each.startswith(f"{world.name}@") for each in ids)
    return [datetime.fromisoformat(str(each).rpartition("@")[2]) for each in ids]


def test_a_message_is_received_at_the_due_time_of_a_cron_expression(own: World) -> None:
    schedule = create(own, cron="* * * * *")
    assert schedule.next_due is not None
    own.move_clock(schedule.next_due - schedule.read_at)
    (received,) = own.queue.receive(wait=MINUTE)
    assert (received.body, due_times_sent(own)) == ({"n": 1}, [schedule.next_due])
    assert own.client.get_schedule(own.name).last_due == schedule.next_due


def test_a_message_is_received_after_an_interval(own: World) -> None:
    schedule = create(own, every=3 * DAY)
    assert schedule.next_due == schedule.start + 3 * DAY
    own.move_clock(3 * DAY)
    own.receive()
    assert due_times_sent(own) == [schedule.next_due]


def test_a_schedule_says_what_it_was_created_with(either: World) -> None:
    start = datetime(2100, 1, 1, tzinfo=UTC)
    message = Message(
        b"\0",
        application_properties={"p": [1]},
        priority=-3,
        time_to_live=MINUTE,
        **TEXT_VALUES,
    )
    created = create(
        either,
        message=message,
        cron="30 2 * * *",
        timezone=ZURICH,
        catch_up="last",
        jitter=SECOND,
        start=start,
        end=start + 2 * DAY,
    )
    assert created.message == message
    assert (created.name, created.queue, created.cron, created.every) == (either.name, either.name, "30 2 * * *", None)
    assert (created.timezone, created.catch_up, created.jitter) == (ZURICH, CatchUp.LAST, SECOND)
    assert (created.start, created.end, created.is_paused) == (start, start + 2 * DAY, False)
    assert created.next_due == datetime(2100, 1, 1, 1, 30, tzinfo=UTC)
    assert (created.last_due, created.last_error) == (None, None)
    (listed,) = [each for each in either.client.list_schedules() if each.name == either.name]
    assert (listed.message, listed.next_due) == (created.message, created.next_due)


@pytest.mark.parametrize("body", [None, {"n": [1]}, "text", 7, b"", b"\0"])
def test_any_body_comes_back_and_is_sent(either: World, body: Any) -> None:
    assert create(either, message=Message(body), every=MINUTE).message == Message(body)
    either.client.run_schedule(either.name)
    assert either.bodies() == [body]


def test_upcoming_are_the_next_due_times_through_a_change_of_the_clocks(either: World) -> None:
    start = datetime(2100, 3, 27, 12, tzinfo=ZoneInfo(ZURICH))
    schedule = create(either, cron="30 2 * * *", timezone=ZURICH, start=start)
    assert [f"{due.astimezone(ZoneInfo(ZURICH)):%d %H:%M}" for due in schedule.upcoming(3)] == [
        "28 03:00",
        "29 02:30",
        "30 02:30",
    ]
    assert len(schedule.upcoming()) == 10
    assert schedule.upcoming()[0] == schedule.next_due


def test_upcoming_of_an_interval_end_where_the_schedule_ends(either: World) -> None:
    start = datetime(2100, 1, 1, tzinfo=UTC)
    schedule = create(either, every=DAY, start=start, end=start + 2 * DAY)
    assert schedule.upcoming() == [start, start + DAY, start + 2 * DAY]


@pytest.mark.parametrize("arguments", [{"every": MINUTE}, {"cron": "* * * * *"}])
def test_a_paused_schedule_sends_nothing_and_says_what_would_follow(either: World, arguments: dict[str, Any]) -> None:
    create(either, catch_up="all", **arguments)
    paused = either.client.pause_schedule(either.name)
    assert (paused.is_paused, paused.next_due) == (True, None)
    assert timedelta(0) < paused.upcoming(1)[0] - paused.read_at <= MINUTE
    either.move_clock(DAY)
    assert either.queue.receive() == []
    resumed = either.client.resume_schedule(either.name)
    assert resumed.next_due is not None
    assert timedelta(0) < resumed.next_due - resumed.read_at <= MINUTE
    either.move_clock(MINUTE)
    either.receive()
    assert due_times_sent(either) == [resumed.next_due]


@pytest.mark.parametrize(("catch_up", "count"), [("none", 1), ("last", 1), ("all", 120)])
def test_what_was_missed_while_nobody_ran_is_computed_and_made_up_for(either: World, catch_up: str, count: int) -> None:
    schedule = create(either, cron="* * * * *", catch_up=catch_up)
    # as if the database had been down: what was computed ahead is long over
    either.run(f"update pgqueue.schedule set later = '{{}}' where name = '{either.name}'")
    either.run(f"update pgqueue.schedule set plan_at = next_due where name = '{either.name}'")
    assert schedule.next_due is not None
    either.move_clock(schedule.next_due - schedule.read_at + 119 * MINUTE)
    either.client.sweep()
    assert due_times_sent(either) == [schedule.next_due + n * MINUTE for n in range(120)][-count:]


def test_a_schedule_of_psql_is_planned_by_the_next_sweep(either: World) -> None:
    sql = "select pgqueue.create_schedule(%s, %s, %s, body => '1')"
    either.look(sql, either.name, either.name, "* * * * *")
    either.look(sql, f"{either.name}-bad", either.name, "* * * * 9")
    assert either.client.get_schedule(either.name).next_due is None
    either.client.sweep()
    assert either.client.get_schedule(either.name).next_due is not None
    error = either.client.get_schedule(f"{either.name}-bad").last_error
    assert error is not None
    assert error.endswith("not '* * * * 9': bad day-of-week")


def test_run_now_returns_the_number_of_the_message(either: World) -> None:
    schedule = create(either, every=DAY)
    number = either.client.run_schedule(either.name)
    assert either.receive().sequence_number == number
    assert either.client.get_schedule(either.name).next_due == schedule.next_due


def test_a_deleted_schedule_is_gone(either: World) -> None:
    create(either, every=MINUTE)
    either.client.delete_schedule(either.name)
    assert either.name not in [schedule.name for schedule in either.client.list_schedules()]
    with pytest.raises(ScheduleNotFoundError, match="create_schedule"):
        either.client.get_schedule(either.name)
    for call in ("pause_schedule", "resume_schedule", "run_schedule", "delete_schedule"):
        with pytest.raises(ScheduleNotFoundError, match="does not exist"):
            getattr(either.client, call)(either.name)


def test_a_name_that_is_taken_is_refused_unless_it_may_exist(own: World) -> None:
    created = create(own, every=MINUTE)
    with pytest.raises(ScheduleAlreadyExistsError, match="exists already"):
        create(own, every=DAY)
    assert create(own, every=DAY, exist_ok=True).every == created.every == MINUTE


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "give either cron or every"),
        ({"cron": "* * * * *", "every": MINUTE}, "give either cron or every, not both"),
        ({"cron": "61 * * * *"}, r"cron must be five fields, .*, not '61 \* .*: bad minute"),
        ({"cron": "0 0 30 2 *"}, "cron must be five fields, .*: it is never due"),
        ({"cron": 5}, "cron must be a str, not 5"),
        ({"cron": "* * * * *", "timezone": "Mars"}, "timezone must be the name of a time zone, .*, not 'Mars'"),
        ({"every": MINUTE, "timezone": "Mars"}, "timezone must be the name of a time zone, .*, not 'Mars'"),
        ({"every": timedelta(0)}, "every must be positive"),
        ({"every": -MINUTE}, "every must be positive"),
        ({"every": 60}, "every must be a timedelta, not 60"),
        ({"every": MINUTE, "jitter": -SECOND}, "jitter must be from 0 to 1 day"),
        ({"every": MINUTE, "catch_up": "some"}, "catch_up must be none, last or all, not 'some'"),
        ({"every": MINUTE, "start": datetime(2100, 1, 1)}, "start must be a datetime with a time zone"),  # noqa: DTZ001
        (
            {"every": MINUTE, "start": datetime(2100, 1, 2, tzinfo=UTC), "end": datetime(2100, 1, 1, tzinfo=UTC)},
            "end must be after start",
        ),
        ({"every": MINUTE, "end": datetime(2000, 1, 1, tzinfo=UTC)}, "ends_at must be a time .* in the future"),
        (
            {"every": MINUTE, "message": Message(1, scheduled_enqueue_time=datetime(2100, 1, 1, tzinfo=UTC))},
            "the message of a schedule must have no scheduled_enqueue_time",
        ),
    ],
)
def test_arguments_that_make_no_sense_are_refused_by_name(either: World, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        create(either, **arguments)
    assert either.name not in [schedule.name for schedule in either.client.list_schedules()]


def test_a_schedule_of_an_unknown_queue_is_refused(either: World) -> None:
    with pytest.raises(QueueNotFoundError, match="nowhere"):
        create(either, queue="nowhere", every=MINUTE)


def test_a_message_that_python_cannot_read_spoils_no_list(either: World) -> None:
    endless = "select pgqueue.create_schedule(%s, %s, every => '1 day', body => '1e5000')"
    either.look(endless, either.name, either.name)
    (schedule,) = [each for each in either.client.list_schedules() if each.name == either.name]
    with pytest.raises(
        MessageNotReadableError, match=f"the message of schedule {either.name} cannot be read: .*digits"
    ):
        schedule.message  # noqa: B018 - asking raises
