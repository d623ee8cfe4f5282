"""Schedules: create, inspect, pause, resume, run, drop; and store the due times that clients compute."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from pgqueue.errors import InvalidArgumentError, ScheduleNotFoundError
from pgqueue.model import recurrence
from pgqueue.model.arguments import moment, name_of, text
from pgqueue.model.body_type import BodyType
from pgqueue.model.columns import MESSAGE
from pgqueue.model.encoding import EncodedMessage, encode
from pgqueue.model.message import Message, SequenceNumber
from pgqueue.model.row import Row
from pgqueue.model.schedule import CatchUp, Schedule
from pgqueue.statements.statement import Statement, call, each, nothing, scalar

#: When a message is due stands in the schedule.
RECURRING: Final = tuple(column for column in MESSAGE if column.name != "scheduled_enqueue_time")
CONTENT: Final = ", ".join(column.identifier if column in RECURRING else "null::timestamptz" for column in MESSAGE)

SCHEDULE: Final = f"""select name, queue, cron, every, timezone, catch_up, jitter, starts_at, ends_at, is_paused,
       next_due, last_due, last_error, created_at, pgqueue.clock(),
       {CONTENT}
  from pgqueue.schedules"""

#: How many columns come before those of the message.
OWN_COLUMNS: Final = 15


class Unplanned(NamedTuple):
    """A schedule whose due times are to be computed now."""

    id: int
    cron: str
    timezone: str
    catch_up: str
    passed_until: datetime
    ends_at: datetime | None
    now: datetime


def create_schedule(
    name: str,
    *,
    queue: str,
    message: Message[Any],
    body_type: BodyType | None = None,
    cron: str | None,
    every: timedelta | None,
    timezone: str,
    catch_up: str,
    jitter: timedelta | None,
    start: datetime | None,
    end: datetime | None,
) -> Statement[None]:
    if text("cron", cron) is not None and text("timezone", timezone) is not None:
        recurrence.check_cron(cron or "", timezone)
    encoded = encode(message, body_type=body_type)
    if encoded.scheduled_enqueue_time is not None:
        raise InvalidArgumentError("the message of a schedule must have no scheduled_enqueue_time: it is sent when due")
    starts_at, ends_at = moment("start", start), moment("end", end)
    if starts_at is not None and ends_at is not None and ends_at <= starts_at:
        raise InvalidArgumentError(f"end must be after start, {start}, not {end}")
    return call(
        "select pgqueue.create_schedule(…)",
        nothing,
        {column.name: getattr(encoded, column.name) for column in RECURRING},
        schedule=name,
        queue=queue,
        cron=cron,
        every=every,
        timezone=timezone,
        catch_up=catch_up,
        jitter=jitter,
        starts_at=starts_at,
        ends_at=ends_at,
    )


def replace_schedule(creation: Statement[None]) -> Statement[None]:
    """Drop a schedule that has the same name, and create this one."""
    return creation._replace(sql=creation.sql + " from pgqueue.drop_schedule(%(schedule)s::text)")


def drop_schedule(name: str) -> Statement[None]:
    return call("select pgqueue.drop_schedule(…)", nothing, schedule=name)


def pause_schedule(name: str) -> Statement[None]:
    return call("select pgqueue.pause_schedule(…)", nothing, schedule=name)


def resume_schedule(name: str) -> Statement[None]:
    return call("select pgqueue.resume_schedule(…)", nothing, schedule=name)


def run_schedule(name: str) -> Statement[SequenceNumber]:
    return call("select pgqueue.run_schedule(…)", lambda rows: SequenceNumber(scalar(rows)), schedule=name)


def get_schedule(name: str) -> Statement[Schedule]:
    def read(rows: Sequence[Row]) -> Schedule:
        if not rows:
            raise ScheduleNotFoundError(
                f"schedule {name} does not exist: create it with client.create_schedule({name!r}, …)"
            )
        return _read(rows[0])

    return Statement(SCHEDULE + " where name = %(schedule)s::text", {"schedule": name_of("schedule", name)}, read)


def list_schedules() -> Statement[list[Schedule]]:
    return Statement(SCHEDULE + " order by name", {}, lambda rows: [_read(row) for row in rows])


def schedules_to_plan() -> Statement[list[Unplanned]]:
    columns = ", ".join(Unplanned._fields)
    return Statement(f"select {columns} from pgqueue.schedules_to_plan()", {}, each(Unplanned))


def plan_schedule(unplanned: Unplanned) -> Statement[None]:
    """Store the due times of a schedule, or why they cannot be computed."""
    plan, error = recurrence.Plan([], is_complete=False), None
    try:
        plan = recurrence.plan(
            unplanned.cron,
            unplanned.timezone,
            passed_until=unplanned.passed_until,
            now=unplanned.now,
            ends_at=unplanned.ends_at,
            catches_up=unplanned.catch_up == CatchUp.ALL,
        )
    except InvalidArgumentError as invalid:
        error = invalid.args[0]
    known = {"id": unplanned.id, "due_times": plan.due_times, "is_complete": plan.is_complete, "error": error}
    return call("select pgqueue.plan_schedule(…)", nothing, known)


def _read(row: Row) -> Schedule:
    name, queue, cron, every, timezone, catch_up, *rest = row[:OWN_COLUMNS]
    fields = (name, queue, cron, every, timezone, CatchUp(catch_up), *rest, EncodedMessage(*row[OWN_COLUMNS:]))
    return Schedule(*fields)
