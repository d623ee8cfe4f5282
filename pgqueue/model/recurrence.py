"""The due times of cron expressions, as values: the same in every process with the same rules of time zones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from heapq import heappop, heappush
from itertools import dropwhile, islice, takewhile
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from pgqueue.errors import InvalidArgumentError

#: How many due times are computed ahead: so many, but not further ahead than this, except for the next one.
AHEAD, FURTHEST = 500, timedelta(days=35)

#: How many of those that have passed are computed: all that can be made up for, or one for each of ten seconds.
CAUGHT_UP, RECENT = 1000, 10

SECOND = timedelta(seconds=1)

#: No clock is set back by more than this.
LONGEST_REPETITION = timedelta(hours=3)

#: From here on an expression must be due within the fifty years that are searched.
BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Plan:
    """Due times, and whether none follows them."""

    due_times: list[datetime]
    is_complete: bool


def check_cron(cron: str, timezone: str) -> None:
    """Raise InvalidArgumentError for an expression that cannot be read or is never due, and for an unknown zone."""
    if next(due_times(cron, timezone, BEGINNING), None) is None:
        raise _invalid(cron, "it is never due")


def due_times(cron: str, timezone: str, since: datetime) -> Iterator[datetime]:
    """The due times after a time, in UTC.

    An expression with a fixed hour and minute is due once on each day. A time that daylight saving skips is made up for
    at once, and one that comes twice counts the first time. Expressions that begin one of the two with ``*``, or have a
    field for seconds, follow the clock.
    """
    for due in _simulated(cron, timezone, since):
        moment = due.astimezone(UTC)
        if moment > since:  # in an hour that comes twice, the search begins with the first
            yield moment
            since = moment


def plan(
    cron: str, timezone: str, *, passed_until: datetime, now: datetime, ends_at: datetime | None, catches_up: bool
) -> Plan:
    """The due times that have passed since ``passed_until``, few unless the schedule catches up, and those ahead."""
    found: list[datetime] = []
    missed = _missed(cron, timezone, passed_until, min(now, ends_at or now), CAUGHT_UP if catches_up else RECENT)
    for due in due_times(cron, timezone, missed - SECOND if missed else passed_until):
        if ends_at is not None and due > ends_at:
            break
        found.append(due)
        if due > now + FURTHEST or (len(found) >= AHEAD and found[-AHEAD] > now):
            return Plan(found, is_complete=False)
    return Plan(found, is_complete=True)


def _missed(cron: str, timezone: str, since: datetime, until: datetime, most: int) -> datetime | None:
    """The first of the latest ``most`` due times that have passed."""
    backward = dropwhile(lambda due: due >= until, _simulated(cron, timezone, until, reverse=True))
    latest = list(islice(takewhile(lambda due: due > since, backward), most))
    return latest[-1].astimezone(UTC) if latest else None


def _simulated(cron: str, timezone: str, since: datetime, *, reverse: bool = False) -> Iterator[datetime]:
    """The due times after a time, or before it in reverse, which may begin a little earlier."""
    local = since.astimezone(zone(timezone))
    if local.tzinfo is UTC or _has_fixed_hours(cron):
        return _read(cron, local, reverse=reverse)
    return _by_the_clock(cron, local, reverse=reverse)


def _has_fixed_hours(cron: str) -> bool:
    """Whether cronsim follows Debian's rules of daylight saving."""
    fields = cron.split()
    return len(fields) == 5 and not any(field.startswith("*") for field in fields[:2])


def _by_the_clock(cron: str, since: datetime, *, reverse: bool) -> Iterator[datetime]:
    """Each moment at which the clock on the wall shows a time of the expression, whatever the clock skips or repeats.

    cronsim moves on by hours that elapse, and so loses times where the clock changes by half an hour.
    """
    nearby = [(since.astimezone(UTC) + sign * LONGEST_REPETITION).astimezone(since.tzinfo) for sign in (-1, 1)]
    wall = since.replace(tzinfo=None, fold=0)
    if any(each.utcoffset() != since.utcoffset() for each in nearby):
        wall += LONGEST_REPETITION if reverse else -LONGEST_REPETITION
    ahead: list[tuple[float, datetime]] = []
    for shown in _read(cron, wall, reverse=reverse):
        moments = [shown.replace(tzinfo=since.tzinfo, fold=fold) for fold in ((1, 0) if reverse else (0, 1))]
        while ahead and ahead[0][0] < _order(moments[0], reverse=reverse):
            yield heappop(ahead)[1]
        for moment in {each.astimezone(UTC) for each in moments}:
            if moment.astimezone(since.tzinfo).replace(tzinfo=None, fold=0) == shown:  # otherwise it is skipped
                heappush(ahead, (_order(moment, reverse=reverse), moment))
    yield from (moment for _, moment in sorted(ahead))


def _order(moment: datetime, *, reverse: bool) -> float:
    return -moment.timestamp() if reverse else moment.timestamp()


def _read(cron: str, since: datetime, *, reverse: bool) -> CronSim:
    try:
        return CronSim(cron, since, reverse)
    except CronSimError as error:
        reason = str(error)
    if reason == "Bad day-of-month" and _is_valid_in_some_month(cron):
        reason = "it is never due"
    raise _invalid(cron, reason)


def _is_valid_in_some_month(cron: str) -> bool:
    """Whether an expression is invalid only because its months have no such day: 30 February."""
    *others, _, day_of_week = cron.split()
    try:
        CronSim(" ".join([*others, "*", day_of_week]), BEGINNING)
    except CronSimError:
        return False
    return True


def _invalid(cron: str, reason: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "cron must be five fields, minute hour day-of-month month day-of-week, such as '30 2 * * *',"
        f" not {cron!r}: {reason[0].lower()}{reason[1:]}"
    )


def zone(name: str) -> tzinfo:
    """The time zone with this name. Raises InvalidArgumentError."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        pass
    remedy = "" if available_timezones() else "; this Python knows none: pip install tzdata"
    raise InvalidArgumentError(
        f"timezone must be the name of a time zone, such as 'Europe/Zurich', not {name!r}{remedy}"
    )
