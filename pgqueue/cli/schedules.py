"""``pgqueue schedule``: messages that are sent again and again."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import Annotated

import typer

from pgqueue import CatchUp
from pgqueue.cli import documents
from pgqueue.cli.completion import queue_names, schedule_names
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.group import Group, top
from pgqueue.cli.options import duration, flag, moment
from pgqueue.cli.output import Result
from pgqueue.cli.quantities import Moment
from pgqueue.cli.queues import Yes, ask, presence
from pgqueue.cli.sending import MessageOptions, reader_of

app = Group(no_args_is_help=True, help="Send messages again and again: by a cron expression, or at an interval.")
top.add_typer(app, name="schedule", short_help="Send messages again and again, by the clock.")

Name = Annotated[
    str, typer.Argument(metavar="SCHEDULE", help="The name of the schedule.", autocompletion=schedule_names)
]
QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue to send to.", autocompletion=queue_names)]
Body = Annotated[str, typer.Argument(metavar="BODY", help="The body of each message, as JSON.")]
WHEN = "a time with its zone, or a duration from now."


@on_database(app, "create")
def create(
    database: Database,
    name: Name,
    queue: QueueName,
    body: Body,
    cron: Annotated[
        str | None, typer.Option(help="When: minute hour day-of-month month day-of-week, such as '30 2 * * *'.")
    ] = None,
    every: Annotated[timedelta | None, duration("How often: 30s, 5m or 1h30m.")] = None,
    timezone: Annotated[str, typer.Option(metavar="ZONE", help="The time zone of --cron.")] = "UTC",
    catch_up: Annotated[
        CatchUp, typer.Option(help="Which of the due times that were missed are sent: none, the last or all.")
    ] = CatchUp.NONE,
    jitter: Annotated[timedelta | None, duration("Deliver up to so much later, at random.")] = None,
    start: Annotated[Moment | None, moment(f"Nothing is due before this: {WHEN}")] = None,
    end: Annotated[Moment | None, moment(f"Nothing is due after this: {WHEN}")] = None,
    *,
    message: MessageOptions,
    exist_ok: Annotated[bool, flag("exist-ok", "Do nothing if the schedule exists.")] = False,
) -> Result:
    """Create a schedule. Workers and sweeps send its message when it is due.

    pgqueue schedule create nightly reports '{"kind": "sales"}' --cron '30 2 * * *' --timezone Europe/Zurich

    pgqueue schedule create heartbeat health 1 --every 30s
    """
    schedule = database.client.create_schedule(
        name,
        queue=queue,
        message=reader_of(message).read_argument(os.fsencode(body)),
        cron=cron,
        every=every,
        timezone=timezone,
        catch_up=catch_up,
        jitter=jitter,
        start=_after_now(start, database),
        end=_after_now(end, database),
        exist_ok=exist_ok,
    )
    return Result(schedule, f"schedule {name} {presence(exist_ok)}", documents.schedule_record)


@on_database(app, "list")
def list_(database: Database) -> Result:
    """List the schedules: when each is due, and whether the last attempt to send failed."""
    nothing = "there is no schedule yet: `pgqueue schedule create` makes one"
    return Result(database.client.list_schedules(), picture=documents.schedules_table, hint=nothing)


@on_database(app, "show")
def show(database: Database, name: Name) -> Result:
    """Show one schedule, with its message."""
    return Result(database.client.get_schedule(name), picture=documents.schedule_record)


@on_database(app, "next")
def next_(
    database: Database, name: Name, count: Annotated[int, typer.Option(help="How many.", min=1, max=10_000)] = 10
) -> Result:
    """Show the next due times of a schedule, in its time zone; of a paused one, those that follow if it is resumed."""
    schedule = database.client.get_schedule(name)
    times = [documents.local(due, schedule, "auto") for due in schedule.upcoming(count)]
    hint = "" if times else f"schedule {name} has ended"
    return Result({"schedule": name, "due_times": times}, "\n".join(times), hint=hint)


@on_database(app, "pause")
def pause(database: Database, name: Name) -> Result:
    """Pause a schedule: it sends nothing until it is resumed."""
    return Result(database.client.pause_schedule(name), f"schedule {name} paused", documents.schedule_record)


@on_database(app, "resume")
def resume(database: Database, name: Name) -> Result:
    """Resume a schedule. Due times that passed while it was paused are skipped."""
    return Result(database.client.resume_schedule(name), f"schedule {name} resumed", documents.schedule_record)


@on_database(app, "run")
def run(database: Database, name: Name) -> Result:
    """Send the message of a schedule now. Its due times stay as they are."""
    number = database.client.run_schedule(name)
    return Result({"schedule": name, "sequence_number": number}, f"sent message {number}")


@on_database(app, "delete")
def delete(database: Database, name: Name, yes: Yes = False) -> Result:
    """Delete a schedule. Messages that it has sent stay."""
    database.client.get_schedule(name)
    ask(f"Delete schedule {name}?", yes)
    database.client.delete_schedule(name)
    return Result({"schedule": name, "deleted": True}, f"schedule {name} deleted")


def _after_now(moment: Moment | None, database: Database) -> datetime | None:
    return moment.after(database.now()) if moment else None
