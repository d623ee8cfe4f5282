"""Schedules: one message for each due time, whichever receive or sweep fires it, and refusals."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from pgqueue.model.columns import identifier
from pgqueue.testing import Database
from tests.fields import TEXT_VALUES
from tests.sql.stage import (
    INVALID_ARGUMENT,
    QUEUE_DISABLED,
    SECOND,
    UNKNOWN_QUEUE,
    Session,
    Stage,
    refused,
    told,
)

UNKNOWN_SCHEDULE, SCHEDULE_EXISTS = "PQ030", "PQ031"

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)

#: When the clock of a stage begins.
BEGINNING = datetime(2030, 1, 1, tzinfo=UTC)

SENT = "select message_id from pgqueue.messages order by sequence_number"
STATE = "select next_due, known_until, last_due, is_paused, last_error from pgqueue.schedules where name = 's'"


def create(session: Session, **arguments: Any) -> int:
    given: dict[str, Any] = {"schedule": "s", "queue": "q", "body": Jsonb({"n": 1})}
    if "cron" not in arguments:
        given["every"] = MINUTE
    number: int = session.call("create_schedule", **given | arguments)
    return number


def ids(*minutes: float) -> list[str]:
    return [f"s@{BEGINNING + n * MINUTE:%Y-%m-%dT%H:%M:%SZ}" for n in minutes]


def turn(session: Session, queue: str = "q") -> bool:
    came: bool = session.call("take_turn", queue=queue)
    return came


def plan(session: Session, *minutes: float, **options: Any) -> None:
    """Store the due times of the only schedule with a cron expression."""
    ((number, *_),) = session.table("schedules_to_plan")
    session.call("plan_schedule", id=number, due_times=[BEGINNING + n * MINUTE for n in minutes], **options)


def test_a_receive_sends_the_message_at_its_due_time_and_receives_it(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        create(ann)
        stage.passes(MINUTE - timedelta(microseconds=1))
        assert ann.receive() == []
        stage.passes(timedelta(microseconds=1))
        (received,) = ann.receive(9)
        assert received.body == {"n": 1}
        assert ann.values(SENT) == ids(1)
        assert ann.rows(STATE) == [(BEGINNING + 2 * MINUTE, None, BEGINNING + MINUTE, False, None)]


def test_a_receiver_of_another_queue_fires_it_too(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="another")
        create(ann)
        stage.passes(MINUTE)
        assert ann.receive(queue="another") == []
        assert ann.values(SENT) == ids(1)


def test_a_sweep_fires_a_schedule_and_reports_it(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        create(ann)
        stage.passes(MINUTE)
        count = "select activated, more from pgqueue.sweep(dry_run => %(dry_run)s)"
        assert ann.rows(count, dry_run=True) == [(1, False)]
        assert ann.values(SENT) == []
        assert ann.rows(count, dry_run=False) == [(1, False)]
        assert ann.values(SENT) == ids(1)
        assert ann.rows(count, dry_run=False) == []


def test_a_sweep_that_reaches_its_limit_reports_more(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        create(ann)
        create(ann, schedule="t")
        stage.passes(MINUTE)
        sweep = "select activated, more from pgqueue.sweep(max_messages => 1)"
        assert ann.rows(sweep)[0] == (1, True)
        assert len(ann.values(SENT)) == 1
        assert ann.rows(sweep)[0] == (1, True)
        assert ann.rows(sweep) == []


def test_a_schedule_that_sends_more_than_a_sweep_may_is_no_end_of_it(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        create(ann, catch_up="all")
        stage.passes(20 * MINUTE)
        assert ann.rows("select activated, more from pgqueue.sweep(10)")[0] == (20, True)
        assert len(ann.values(SENT)) == 20
        assert ann.rows("select activated, more from pgqueue.sweep(10)") == []


def test_it_is_fired_once_by_two_at_the_same_time(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        create(ann)
        stage.passes(MINUTE)
        bob.rows("set lock_timeout = 0; set statement_timeout = '5s'")
        ann.begin()
        assert turn(ann)
        assert not turn(bob)
        ann.commit()
        assert not turn(bob)
        assert ann.values(SENT) == ids(1)


def test_a_session_that_saw_it_due_before_another_fired_it_does_nothing(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        create(ann)
        stage.passes(MINUTE)
        bob.begin()
        assert bob.value("select count(*) from pgqueue.schedule where fire_at <= pgqueue.clock()") == 1
        assert turn(ann)
        assert not turn(bob)
        bob.commit()
        assert ann.values(SENT) == ids(1)


def test_a_firing_that_is_rolled_back_is_done_again(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        create(ann)
        stage.passes(MINUTE)
        ann.begin()
        assert turn(ann)
        ann.rollback()
        assert turn(bob)
        assert ann.values(SENT) == ids(1)


@pytest.mark.parametrize(
    ("catch_up", "late", "minutes"),
    [
        ("none", timedelta(seconds=59), [60]),
        ("none", timedelta(seconds=30), [60]),
        ("last", timedelta(seconds=30), [60]),
        ("all", timedelta(seconds=30), range(1, 61)),
    ],
)
def test_missed_due_times_are_sent_according_to_catch_up(
    database: Database, catch_up: str, late: timedelta, minutes: list[int]
) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        create(ann, catch_up=catch_up)
        stage.passes(HOUR + late)
        turn(ann)
        assert ann.values(SENT) == ids(*minutes)
        assert ann.rows(STATE)[0][0] == BEGINNING + 61 * MINUTE


@pytest.mark.parametrize(("catch_up", "minutes"), [("none", []), ("last", [60]), ("all", [60])])
def test_of_a_due_time_that_is_noticed_after_more_than_a_minute_is_sent(
    database: Database, catch_up: str, minutes: list[int]
) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        create(ann, every=HOUR, catch_up=catch_up)
        stage.passes(HOUR + MINUTE)
        turn(ann)
        assert ann.values(SENT) == ids(*minutes)
        assert ann.rows(STATE)[0][0] == BEGINNING + 2 * HOUR


@pytest.mark.parametrize(("catch_up", "missed"), [("none", 0), ("last", 0), ("all", 2)])
def test_each_due_time_of_the_last_ten_seconds_is_in_time(database: Database, catch_up: str, missed: int) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        create(ann, every=SECOND, catch_up=catch_up)
        stage.passes(12 * SECOND)
        turn(ann)
        assert ann.values(SENT) == ids(*(n / 60 for n in range(3 - missed, 13)))


def test_no_more_than_the_latest_thousand_are_made_up_for(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        create(ann, every=SECOND, catch_up="all")
        stage.passes(HOUR)
        turn(ann)
        sent = ann.values(SENT)
        assert (len(sent), sent[0], sent[-1]) == (1000, *ids((3600 - 999) / 60, 60))


def test_due_times_before_the_start_and_after_the_end_are_left_out(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        create(ann, starts_at=BEGINNING + HOUR, ends_at=BEGINNING + HOUR + MINUTE, catch_up="all")
        assert ann.rows(STATE)[0][0] == BEGINNING + HOUR
        stage.passes(2 * HOUR)
        turn(ann)
        assert ann.values(SENT) == ids(60, 61)
        assert ann.rows(STATE)[0][0] is None


def test_a_start_that_has_passed_gives_the_rhythm_and_nothing_is_made_up_for(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        create(ann, starts_at=BEGINNING - 90 * SECOND, catch_up="all")
        assert ann.values("select pgqueue.due_times('s', 2)") == [BEGINNING + n * SECOND for n in (30, 90)]


def test_a_day_of_an_interval_has_24_hours_whatever_the_time_zone_of_the_session(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.rows("set timezone = 'Europe/Zurich'")
        ann.rows("""select pgqueue.create_schedule('s', 'q', every => '1 day', body => '1', catch_up => 'all',
                                                   starts_at => '2030-03-30 12:00+01')""")
        assert ann.values("select pgqueue.due_times('s', 3)") == [
            datetime(2030, 3, day, 11, tzinfo=UTC) for day in (30, 31)
        ] + [datetime(2030, 4, 1, 11, tzinfo=UTC)]
        stage.passes(timedelta(days=91))
        turn(ann)
        assert ann.values(SENT)[:2] == ["s@2030-03-30T11:00:00Z", "s@2030-03-31T11:00:00Z"]


def test_with_jitter_a_message_is_received_a_little_later(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        create(ann, jitter=timedelta(seconds=30))
        stage.passes(MINUTE)
        assert ann.receive() == []
        ((at, name),) = ann.rows("select scheduled_enqueue_time, message_id from pgqueue.scheduled_messages")
        assert BEGINNING + MINUTE <= at < BEGINNING + MINUTE + timedelta(seconds=30)  # the view has whole seconds
        assert [name] == ids(1)
        stage.passes(timedelta(seconds=30))
        assert len(ann.receive()) == 1


def test_the_message_carries_all_that_a_message_can(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        create(
            ann,
            body=None,
            binary_body=b"\0",
            application_properties=Jsonb({"p": 1}),
            **TEXT_VALUES,
            priority=-3,
            time_to_live=HOUR,
        )
        stage.passes(MINUTE)
        turn(ann)
        texts = TEXT_VALUES | {"message_id": "the message_id@2030-01-01T00:01:00Z"}
        columns = f"binary_body, {', '.join(map(identifier, texts))}, application_properties, priority, expires_at"
        assert ann.rows(f"select {columns} from pgqueue.messages") == [
            (b"\0", *texts.values(), {"p": 1}, -3, BEGINNING + MINUTE + HOUR)
        ]


def test_the_id_names_fractions_of_a_second_where_there_are_any(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        create(ann, every=timedelta(milliseconds=1500))
        stage.passes(timedelta(milliseconds=1500))
        turn(ann)
        assert ann.values(SENT) == ["s@2030-01-01T00:00:01.5Z"]


def test_a_refusal_is_kept_and_tried_again_and_the_other_schedules_go_on(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="another")
        create(ann)
        create(ann, schedule="t", queue="another")
        ann.call("alter_queue", queue="q", status="SEND_DISABLED")
        stage.passes(MINUTE)
        assert turn(ann)
        assert ann.values(SENT) == ["t@2030-01-01T00:01:00Z"]
        assert ann.rows(STATE) == [(BEGINNING + MINUTE, None, None, False, "queue q has the status SEND_DISABLED")]
        assert not turn(ann)
        ann.call("alter_queue", queue="q", status="ACTIVE")
        stage.passes(10 * SECOND)
        assert turn(ann)
        assert ann.values(SENT) == ["t@2030-01-01T00:01:00Z", *ids(1)]
        assert ann.rows(STATE)[0][-1] is None


def test_firing_does_not_wait_for_a_sender_of_the_same_id(database: Database) -> None:
    with Stage(database, requires_duplicate_detection=True) as stage:
        ann, ben = stage.sessions("ann", "ben")
        ann.call("create_queue", queue="another")
        create(ann)
        ben.begin()
        ben.send("early", message_id=ids(1)[0])
        stage.passes(MINUTE)
        ann.rows("set lock_timeout = 0; set statement_timeout = '5s'")
        assert ann.receive(queue="another") == []
        assert ann.rows(STATE)[0][-1] == "an open transaction sends a message with the same id, or changes the queue"
        ben.rollback()
        stage.passes(10 * SECOND)
        assert turn(ann)
        assert ann.values(SENT) == ids(1)


def test_a_pause_skips_the_due_times_of_it(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        create(ann, catch_up="all")
        ann.call("pause_schedule", schedule="s")
        assert ann.rows(STATE) == [(None, None, None, True, None)]
        stage.passes(HOUR)
        assert not turn(ann)
        ann.call("resume_schedule", schedule="s")
        assert not turn(ann)
        assert ann.rows(STATE)[0][0] == BEGINNING + HOUR + MINUTE
        stage.passes(MINUTE)
        assert turn(ann)
        assert ann.values(SENT) == ids(61)


def test_resuming_what_is_not_paused_skips_nothing(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        create(ann)
        stage.passes(MINUTE)
        ann.call("resume_schedule", schedule="s")
        assert turn(ann)


def test_run_now_sends_at_once_even_in_a_pause_and_moves_no_due_time(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        create(ann, jitter=HOUR)
        stage.passes(30 * SECOND)
        number = ann.call("run_schedule", schedule="s")
        ann.call("pause_schedule", schedule="s")
        another = ann.call("run_schedule", schedule="s")
        assert ann.numbers(9) == [number, another]
        ann.call("resume_schedule", schedule="s")
        assert ann.rows(STATE)[0][0] == BEGINNING + MINUTE


def test_a_dropped_schedule_sends_no_more_and_what_it_sent_stays(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        create(ann)
        stage.passes(MINUTE)
        turn(ann)
        ann.call("drop_schedule", schedule="s")
        stage.passes(MINUTE)
        assert not turn(ann)
        assert ann.values(SENT) == ids(1)


def test_a_queue_that_is_dropped_takes_its_schedules_with_it(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        create(ann)
        ann.call("drop_queue", queue="q")
        assert ann.values("select name from pgqueue.schedules") == []
        ann.call("create_queue", queue="q")


def test_due_times_of_a_cron_expression_are_those_that_a_client_stored(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        create(ann, cron="* * * * *", catch_up="all")
        assert ann.rows(STATE)[0][:2] == (None, BEGINNING)
        plan(ann, 1, 2, 3)
        assert ann.table("schedules_to_plan") == []
        assert ann.rows(STATE)[0][:2] == (BEGINNING + MINUTE, BEGINNING + 3 * MINUTE)
        stage.passes(2 * MINUTE)
        assert turn(ann)
        assert ann.values(SENT) == ids(1, 2)
        assert ann.values("select pgqueue.due_times('s')") == [BEGINNING + 3 * MINUTE]


def test_more_due_times_are_wanted_when_half_have_passed_or_after_a_day(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        create(ann, cron="* * * * *", catch_up="all")
        plan(ann, 1, 2, 3, 4)
        stage.passes(2 * MINUTE - SECOND)
        assert ann.table("schedules_to_plan") == []
        stage.passes(SECOND)
        plan(ann, *range(1, 10_000))
        stage.passes(timedelta(days=1) - SECOND)
        assert ann.table("schedules_to_plan") == []
        stage.passes(SECOND)
        assert len(ann.table("schedules_to_plan")) == 1


def test_a_sent_due_time_is_not_due_again_when_an_earlier_plan_is_stored(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        number = create(ann, cron="* * * * *", catch_up="all")
        plan(ann, 1, 2)
        stage.passes(MINUTE)
        turn(ann)
        bob.call("plan_schedule", id=number, due_times=[BEGINNING + n * MINUTE for n in (1, 2, 3)])
        stage.passes(MINUTE)
        turn(ann)
        assert ann.values(SENT) == ids(1, 2)


def test_a_plan_whose_times_have_passed_takes_no_other_away(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        number = create(ann, cron="* * * * *", catch_up="all")
        plan(ann, *range(1, 10))
        stage.passes(5 * MINUTE)
        turn(ann)
        bob.call("plan_schedule", id=number, due_times=[BEGINNING + n * MINUTE for n in (1, 2, 3)])
        stage.passes(MINUTE)
        turn(ann)
        assert ann.values(SENT) == ids(*range(1, 7))


def test_a_schedule_whose_plan_comes_too_late_is_planned_again(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        number = create(ann, cron="* * * * *")
        stage.passes(5 * MINUTE)
        ann.call("plan_schedule", id=number, due_times=[BEGINNING + n * MINUTE for n in (1, 2, 3)])
        assert [row[0] for row in ann.table("schedules_to_plan")] == [number]


def test_a_schedule_whose_plan_is_complete_ends(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        create(ann, cron="* * * * *")
        plan(ann, 1, is_complete=True)
        stage.passes(MINUTE)
        assert turn(ann)
        stage.passes(timedelta(days=9))
        assert ann.table("schedules_to_plan") == []
        assert ann.rows(STATE)[0][:2] == (None, None)


def test_a_plan_that_failed_is_tried_again_after_a_minute(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        create(ann, cron="a b c d e")
        plan(ann, error="bad minute")
        assert ann.rows(STATE)[0][-1] == "bad minute"
        assert ann.table("schedules_to_plan") == []
        stage.passes(MINUTE)
        plan(ann, 2)
        assert ann.rows(STATE)[0][-1] is None


def test_a_plan_does_not_wait_for_a_firing(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        number = create(ann, cron="* * * * *")
        plan(ann, 1, 2)
        stage.passes(MINUTE)
        ann.begin()
        assert turn(ann)
        bob.call("plan_schedule", id=number, due_times=[BEGINNING + HOUR])
        ann.commit()
        assert ann.rows(STATE)[0][0] == BEGINNING + 2 * MINUTE


def test_a_plan_of_a_dropped_schedule_is_ignored(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        number = create(ann, cron="* * * * *")
        ann.call("drop_schedule", schedule="s")
        ann.call("plan_schedule", id=number, due_times=[BEGINNING])


def test_waiting_consumers_learn_of_a_schedule_that_is_due_before_they_poll(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        with told(stage, ann, times=1):
            create(ann, every=3 * SECOND)
        with told(stage, ann, times=0):
            create(ann, schedule="t", every=6 * SECOND)
        assert ann.value("select pgqueue._due_in('q')") == 3


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"schedule": None}, "the name of a schedule must be"),
        ({"schedule": "a b"}, "the name of a schedule must be"),
        ({"schedule": "a" * 101}, "the name of a schedule must be at most 100"),
        ({"cron": "* * * * *", "every": MINUTE}, "give either cron or every, not both"),
        ({"every": None}, "give either cron or every"),
        ({"cron": "* * *"}, "cron must be five fields"),
        ({"every": timedelta(0)}, "every must be positive"),
        ({"every": -MINUTE}, "every must be positive"),
        ({"timezone": "Europe/Zürich"}, "timezone must be the name of a time zone"),
        ({"catch_up": "some"}, "catch_up must be none, last or all, not 'some'"),
        ({"jitter": -SECOND}, "jitter must be from 0 to 1 day"),
        ({"jitter": timedelta(days=2)}, "jitter must be from 0 to 1 day"),
        ({"starts_at": BEGINNING + HOUR, "ends_at": BEGINNING + MINUTE}, "ends_at must be a time after starts_at"),
        ({"ends_at": BEGINNING}, "ends_at must be a time after starts_at and in the future"),
        ({"ends_at": BEGINNING + SECOND}, "ends_at must be a time at or after the first due time"),
        ({"message_id": "m" * 101}, "message_id must be at most 100 characters"),
        ({"priority": 101}, "the priority of the message must be"),
        ({"body": None}, "the message must be one with either a body or a binary_body"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_by_name(
    database: Database, arguments: dict[str, Any], text: str
) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        with pytest.raises(psycopg.Error, match=text) as refusal:
            create(ann, **arguments)
        assert refusal.value.sqlstate == INVALID_ARGUMENT


def test_months_are_no_interval_and_infinity_is_no_time(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        for option in (
            "every => '1 month'",
            "every => '1 day', ends_at => 'infinity'",
            "every => '1 day', starts_at => '-infinity'",
        ):
            with refused(INVALID_ARGUMENT):
                ann.rows(f"select pgqueue.create_schedule('s', 'q', body => '1', {option})")


@pytest.mark.parametrize("look", ["select pgqueue.sweep()", "select pgqueue.schedules_to_plan()"])
def test_a_clock_that_was_a_year_ahead_silences_no_schedule(database: Database, look: str) -> None:
    year = timedelta(days=365)
    with Stage(database) as stage:
        ann = stage.session("ann")
        create(ann, catch_up="last")
        create(ann, schedule="cron", cron="* * * * *")
        create(ann, schedule="later", starts_at=BEGINNING + HOUR)
        plan(ann, *(60 * 24 * 365 - n for n in range(9)))
        stage.passes(year)
        assert turn(ann)
        stage.passes(-year)
        ann.rows(look)
        due = dict(ann.rows("select name, next_due from pgqueue.schedules"))
        assert due == {"s": BEGINNING + MINUTE, "cron": None, "later": BEGINNING + HOUR}
        ((_, cron, *_, passed_until, _, now),) = ann.table("schedules_to_plan")
        assert (cron, passed_until) == ("* * * * *", now)


def test_a_clock_that_is_set_back_a_little_repeats_no_due_time(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        create(ann)
        for minutes, back in ((3, 2), (4, 3)):
            stage.passes(minutes * MINUTE)
            turn(ann)
            stage.passes(-back * MINUTE)
            ann.rows("select pgqueue.schedules_to_plan()")
            ann.rows("select pgqueue.sweep()")
            turn(ann)
        for _ in range(5):
            stage.passes(MINUTE)
            turn(ann)
        sent = ann.values(SENT)
        assert len(sent) == len(set(sent))


def test_a_clock_that_goes_on_by_hours_within_a_call_repeats_no_due_time(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        create(ann, catch_up="all")
        bob.rows("select pgqueue.schedules_to_plan()")
        ann.begin()
        ann.rows("lock table pgqueue.schedule")
        repairing = bob.starts(lambda: bob.rows("select pgqueue.schedules_to_plan()"))  # it has looked at the clock
        stage.passes(3 * HOUR)
        turn(ann)
        ann.commit()
        repairing.result()
        turn(ann)
        assert ann.values(SENT) == ids(*range(1, 181))


def test_repairing_schedules_does_not_wait_for_a_firing(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        create(ann)
        stage.passes(3 * HOUR)
        assert turn(ann)
        stage.passes(-2 * HOUR)
        ann.begin()
        ann.rows("select from pgqueue.schedule for update")
        bob.rows("select pgqueue.schedules_to_plan()")
        ann.commit()


def test_no_schedule_is_made_to_send_more_often_than_a_cron_expression_can(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        (number,) = ann.values("select pgqueue.create_schedule('yearly', 'q', '0 0 1 1 *', body => '1')")
        for due_times in ([BEGINNING, BEGINNING + SECOND / 2], [BEGINNING, None], None):
            with refused(INVALID_ARGUMENT):
                ann.call("plan_schedule", id=number, due_times=due_times)


def test_missing_and_duplicate_names_are_refused(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        with refused(UNKNOWN_QUEUE):
            create(ann, queue="nowhere")
        for verb in ("drop_schedule", "pause_schedule", "resume_schedule", "run_schedule", "due_times"):
            with refused(UNKNOWN_SCHEDULE):
                ann.call(verb, schedule="s")
        create(ann)
        with refused(SCHEDULE_EXISTS):
            create(ann)
        ann.call("alter_queue", queue="q", status="DISABLED")
        create(ann, schedule="t")
        with refused(QUEUE_DISABLED):
            ann.call("run_schedule", schedule="t")
