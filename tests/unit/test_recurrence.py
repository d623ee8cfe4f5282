"""The due times of cron expressions: daylight saving, plans, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from pgqueue.errors import InvalidArgumentError
from pgqueue.model.recurrence import AHEAD, CAUGHT_UP, FURTHEST, RECENT, check_cron, due_times, plan

ZURICH = "Europe/Zurich"

#: In Zurich, clocks go forward at 1:00 UTC on this day, from 2:00 to 3:00; and back at 1:00 UTC, from 3:00 to 2:00.
SPRING, AUTUMN = datetime(2030, 3, 31, tzinfo=UTC), datetime(2030, 10, 27, tzinfo=UTC)

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def following(cron: str, since: datetime, count: int, timezone: str = ZURICH) -> list[datetime]:
    return list(islice(due_times(cron, timezone, since), count))


def local(times: list[datetime]) -> list[str]:
    return [f"{time.astimezone(ZoneInfo(ZURICH)):%d %H:%M%z}" for time in times]


@pytest.mark.parametrize(
    ("cron", "times"),
    [
        ("30 2 * * *", ["30 02:30+0100", "31 03:00+0200", "01 02:30+0200"]),
        ("0 2,3 * * *", ["30 02:00+0100", "30 03:00+0100", "31 03:00+0200", "01 02:00+0200"]),
        ("0 4 * * *", ["30 04:00+0100", "31 04:00+0200", "01 04:00+0200"]),
    ],
)
def test_a_time_that_is_skipped_is_due_when_the_clocks_have_gone_forward(cron: str, times: list[str]) -> None:
    assert local(following(cron, SPRING - DAY, len(times))) == times


def test_a_time_that_comes_twice_is_due_the_first_time() -> None:
    assert local(following("30 2 * * *", AUTUMN - DAY, 3)) == ["26 02:30+0200", "27 02:30+0200", "28 02:30+0100"]
    between = AUTUMN + 70 * MINUTE
    assert local(following("30 2 * * *", between, 1)) == ["28 02:30+0100"]


@pytest.mark.parametrize(("cron", "period"), [("30 * * * *", HOUR), ("*/20 * * * *", 20 * MINUTE)])
@pytest.mark.parametrize("change", [SPRING, AUTUMN])
def test_an_hourly_schedule_follows_the_clock_through_both_changes(
    cron: str, period: timedelta, change: datetime
) -> None:
    times = following(cron, change - 3 * HOUR, 24)
    assert {after - before for before, after in pairwise(times)} == {period}


def test_a_field_for_seconds_may_come_first() -> None:
    assert following("*/30 * * * * *", SPRING, 2, "UTC") == [SPRING + n * timedelta(seconds=30) for n in (1, 2)]


#: Clocks change by half an hour there: forward from 2:00 to 2:30, and back from 2:00 to 1:30.
LORD_HOWE = "Australia/Lord_Howe"
CHANGES = {
    ZURICH: (SPRING + timedelta(hours=1), AUTUMN + timedelta(hours=1)),
    LORD_HOWE: (datetime(2030, 4, 6, 15, tzinfo=UTC), datetime(2030, 10, 5, 15, 30, tzinfo=UTC)),
}
FOLLOWING_THE_CLOCK = ["45 * * * *", "0 */2 * * *", "*/15 2 * * *", "*/10 1-2 * * *", "20 */3 * * *", "* * * * *"]


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("cron", FOLLOWING_THE_CLOCK)
@pytest.mark.parametrize("timezone", CHANGES)
def test_an_expression_with_a_star_is_due_whenever_the_clock_shows_its_time(
    timezone: str, cron: str, reverse: bool
) -> None:
    fields = CronSim(cron, SPRING)
    for change in CHANGES[timezone]:
        minutes = [change + n * MINUTE for n in range(-400, 400)]
        shown = [(moment, moment.astimezone(ZoneInfo(timezone))) for moment in minutes]
        due = [moment for moment, time in shown if time.minute in fields.minutes and time.hour in fields.hours]
        for distance in (-200, -95, -61, -31, -1, 0, 1, 29, 31, 59, 61, 119, 121):
            since = change + distance * MINUTE
            if reverse:
                passed = [moment for moment in due if minutes[0] < moment <= since]
                made = plan(cron, timezone, passed_until=minutes[0], now=since, ends_at=None, catches_up=True)
                assert [moment for moment in made.due_times if moment <= since] == passed
            else:
                ahead = [moment for moment in due if moment > since]
                assert following(cron, since, len(ahead), timezone) == ahead


crons = st.sampled_from(
    ["30 2 * * *", "0 2,3 * * *", "*/20 * * * *", "15 1-3 * * 0", "0 */2 * * *", "45 * * * *", "* * * * *"]
)
moments = st.sampled_from([(zone, change) for zone, changes in CHANGES.items() for change in changes]).flatmap(
    lambda place: st.integers(-300, 300).map(lambda minutes: (place[0], place[1] + minutes * MINUTE))
)


@given(crons, moments)
def test_due_times_increase_and_do_not_depend_on_where_one_begins(cron: str, place: tuple[str, datetime]) -> None:
    timezone, since = place
    times = following(cron, since, 9, timezone)
    assert since < times[0]
    assert times == sorted(set(times))
    assert [time for time in following(cron, since - 3 * HOUR, 200, timezone) if time > since][:9] == times


@given(crons, moments, st.integers(0, 600))
def test_a_plan_that_catches_up_has_all_that_was_missed(cron: str, place: tuple[str, datetime], minutes: int) -> None:
    timezone, since = place
    now = since + minutes * MINUTE
    made = plan(cron, timezone, passed_until=since, now=now, ends_at=None, catches_up=True)
    assert made.due_times == following(cron, since, len(made.due_times), timezone)
    assert made.due_times[-1] > now
    assert not made.is_complete


def test_a_plan_reaches_so_far_and_no_further() -> None:
    for cron, most in (("* * * * *", AHEAD), ("0 0 * * *", FURTHEST.days + 1), ("0 0 1 1 *", 1)):
        made = plan(cron, "UTC", passed_until=SPRING, now=SPRING, ends_at=None, catches_up=False)
        assert made.due_times == following(cron, SPRING, most, "UTC")


def test_a_plan_ends_where_the_schedule_ends() -> None:
    made = plan("0 * * * *", "UTC", passed_until=SPRING, now=SPRING, ends_at=SPRING + 2 * HOUR, catches_up=False)
    assert (made.due_times, made.is_complete) == ([SPRING + HOUR, SPRING + 2 * HOUR], True)


@pytest.mark.parametrize(("catches_up", "count"), [(False, RECENT), (True, CAUGHT_UP)])
def test_only_the_latest_times_of_a_long_span_are_planned(catches_up: bool, count: int) -> None:
    now = SPRING + 365 * DAY + timedelta(seconds=1)
    made = plan("* * * * *", "UTC", passed_until=SPRING, now=now, ends_at=None, catches_up=catches_up)
    missed = [due for due in made.due_times if due <= now]
    assert (len(missed), missed[-1]) == (count, SPRING + 365 * DAY)
    assert len(made.due_times) == count + AHEAD


@pytest.mark.parametrize(
    ("cron", "reason"),
    [
        ("", "wrong number of fields"),
        ("* * *", "wrong number of fields"),
        ("61 * * * *", "bad minute"),
        ("0 0 32 * *", "bad day-of-month"),
        ("@daily", "wrong number of fields"),
        ("0 0 30 2 *", "it is never due"),
        ("0 0 31 4,6 *", "it is never due"),
        ("0 0 */20 * 1L", "it is never due"),
    ],
)
def test_an_expression_that_is_never_due_or_cannot_be_read_is_refused(cron: str, reason: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^cron must be five fields, .*, not .*: {reason}"):
        check_cron(cron, "UTC")


@pytest.mark.parametrize("timezone", ["Europe/Zürich", "Mars", "../../etc/passwd", "/etc", "Europe", "", "\0"])
def test_an_unknown_time_zone_is_refused(timezone: str) -> None:
    with pytest.raises(InvalidArgumentError, match="timezone must be the name of a time zone, "):
        check_cron("* * * * *", timezone)
