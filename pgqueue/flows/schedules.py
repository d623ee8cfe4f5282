"""Schedules: the due times of cron expressions are computed here, and stored for those who fire."""

from __future__ import annotations

from pgqueue.errors import ScheduleAlreadyExistsError, ScheduleNotFoundError
from pgqueue.flows import flow
from pgqueue.flows.flow import Executor, Flow
from pgqueue.model.body_type import BodyType
from pgqueue.model.schedule import Schedule
from pgqueue.model.task import Periodic
from pgqueue.statements import Statement, schedules


def create(statement: Statement[None], name: str, source: Executor, *, exist_ok: bool) -> Flow[Schedule]:
    yield from flow.create(statement, source, ScheduleAlreadyExistsError, exist_ok=exist_ok)
    return (yield from _planned(name, source))


def declare(declared: Periodic, body_type: BodyType | None, source: Executor) -> Flow[None]:
    """Create a schedule as it is declared. One that is declared otherwise is replaced, in one statement."""
    creation = schedules.create_schedule(**vars(declared), body_type=body_type, start=None, end=None)
    try:
        known = yield from source.execute(schedules.get_schedule(declared.name))
        if declared.is_as(known, body_type):
            return
        yield from source.execute(schedules.replace_schedule(creation))
    except ScheduleNotFoundError:
        yield from flow.create(creation, source, ScheduleAlreadyExistsError, exist_ok=True)
    yield from plan(source)


def pause(name: str, source: Executor) -> Flow[Schedule]:
    yield from source.execute(schedules.pause_schedule(name))
    return (yield from source.execute(schedules.get_schedule(name)))


def resume(name: str, source: Executor) -> Flow[Schedule]:
    yield from source.execute(schedules.resume_schedule(name))
    return (yield from _planned(name, source))


def plan(source: Executor) -> Flow[None]:
    """Compute the due times of schedules that need it. Several processes may: they compute the same."""
    for unplanned in (yield from source.execute(schedules.schedules_to_plan())):
        yield from source.execute(schedules.plan_schedule(unplanned))


def _planned(name: str, source: Executor) -> Flow[Schedule]:
    yield from plan(source)
    return (yield from source.execute(schedules.get_schedule(name)))
