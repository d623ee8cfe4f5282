"""``pgqueue schedule``: messages that are sent again and again."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from pgqueue import CatchUp, Schedule
from pgqueue.cli import documents, output
from pgqueue.cli.completion import queue_names, schedule_names
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.group import Group
from pgqueue.cli.options import with_options
from pgqueue.cli.output import AsJson
from pgqueue.cli.quantities import Moment, parse_duration, parse_moment
from pgqueue.cli.queues import Yes, ask
from pgqueue.cli.sending import (
    TEXT_OPTIONS,
    AsBinary,
    AsText,
    Envelope,
    Priority,
    Properties,
    TimeToLive,
    form_of,
    parse_property,
    read_message,
)

app = Group(no_args_is_help=True, help="Send messages again and again: by a cron expression, or at an interval.")

Name = Annotated[
    str,
    typer.Argument(
        metavar="SCHEDULE", help="The name of the schedule.", show_default=False, autocompletion=schedule_names
    ),
]
QueueName = Annotated[
    str, typer.Argument(metavar="QUEUE", help="The queue to send to.", show_default=False, autocompletion=queue_names)
]
Body = Annotated[str, typer.Argument(metavar="BODY", help="The body of each message, as JSON.", show_default=False)]


def _moment(meaning: str) -> Any:
    meaning = f"{meaning}: a time with its zone, or a duration from now."
    return typer.Option(help=meaning, parser=parse_moment, metavar="TIME", show_default=False)


def _duration(meaning: str) -> Any:
    return typer.Option(help=meaning, parser=parse_duration, metavar="DURATION", show_default=False)


@app.command("create")
@on_database
@with_options("texts", TEXT_OPTIONS)
def create(
    database: Database,
    name: Name,
    queue: QueueName,
    body: Body,
    cron: Annotated[
        str | None,
        typer.Option(
            help="When: minute hour day-of-month month day-of-week, such as '30 2 * * *'.", show_default=False
        ),
    ] = None,
    every: Annotated[timedelta | None, _duration("How often: 30s, 5m or 1h30m.")] = None,
    timezone: Annotated[str, typer.Option(metavar="ZONE", help="The time zone of --cron.")] = "UTC",
    catch_up: Annotated[
        CatchUp,
        typer.Option(help="Which of the due times that were missed are sent: none, the last or all."),
    ] = CatchUp.NONE,
    jitter: Annotated[timedelta | None, _duration("Deliver up to so much later, at random.")] = None,
    start: Annotated[Moment | None, _moment("Nothing is due before this")] = None,
    end: Annotated[Moment | None, _moment("Nothing is due after this")] = None,
    text: AsText = False,
    binary: AsBinary = False,
    properties: Properties = None,
    *,
    texts: dict[str, str | None],
    priority: Priority = 0,
    time_to_live: TimeToLive = None,
    exist_ok: Annotated[bool, typer.Option("--exist-ok", help="Do nothing if the schedule exists.")] = False,
    as_json: AsJson = False,
) -> None:
    """Create a schedule. Workers and sweeps send its message when it is due.

    pgqueue schedule create nightly reports '{"kind": "sales"}' --cron '30 2 * * *' --timezone Europe/Zurich

    pgqueue schedule create heartbeat health 1 --every 30s
    """
    given = dict(map(parse_property, properties or ())) or None
    envelope = Envelope(texts, priority, given, time_to_live)
    schedule = database.client.create_schedule(
        name,
        queue=queue,
        message=read_message(os.fsencode(body), form_of(text, binary), envelope),
        cron=cron,
        every=every,
        timezone=timezone,
        catch_up=catch_up,
        jitter=jitter,
        start=_after_now(start, database),
        end=_after_now(end, database),
        exist_ok=exist_ok,
    )
    _print_schedule(schedule, f"schedule {name} created", as_json)


@app.command("list")
@on_database
def list_(database: Database, as_json: AsJson = False) -> None:
    """List the schedules: when each is due, and whether the last attempt to send failed."""
    schedules = database.client.list_schedules()
    if as_json:
        output.document([documents.schedule_document(schedule) for schedule in schedules])
    elif schedules:
        output.show(documents.schedules_table(schedules))
    else:
        output.hint("there is no schedule yet: `pgqueue schedule create` makes one")


@app.command("show")
@on_database
def show(database: Database, name: Name, as_json: AsJson = False) -> None:
    """Show one schedule, with its message."""
    schedule = database.client.get_schedule(name)
    if as_json:
        output.document(documents.schedule_document(schedule))
    else:
        output.show(documents.schedule_record(schedule))


@app.command("next")
@on_database
def next_(
    database: Database,
    name: Name,
    count: Annotated[int, typer.Option(help="How many.", min=1, max=10_000)] = 10,
    as_json: AsJson = False,
) -> None:
    """Show the next due times of a schedule, in its time zone; of a paused one, those that follow if it is resumed."""
    schedule = database.client.get_schedule(name)
    times = [documents.local(due, schedule, "auto") for due in schedule.upcoming(count)]
    if as_json:
        output.document({"schedule": name, "due_times": times})
    elif times:
        output.say("\n".join(times))
    else:
        output.hint(f"schedule {name} has ended")


@app.command("pause")
@on_database
def pause(database: Database, name: Name, as_json: AsJson = False) -> None:
    """Pause a schedule: it sends nothing until it is resumed."""
    _print_schedule(database.client.pause_schedule(name), f"schedule {name} paused", as_json)


@app.command("resume")
@on_database
def resume(database: Database, name: Name, as_json: AsJson = False) -> None:
    """Resume a schedule. Due times that passed while it was paused are skipped."""
    _print_schedule(database.client.resume_schedule(name), f"schedule {name} resumed", as_json)


@app.command("run")
@on_database
def run(database: Database, name: Name, as_json: AsJson = False) -> None:
    """Send the message of a schedule now. Its due times stay as they are."""
    number = database.client.run_schedule(name)
    if as_json:
        output.document({"schedule": name, "sequence_number": number})
    else:
        output.say(f"sent message {number}")


@app.command("delete")
@on_database
def delete(database: Database, name: Name, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete a schedule. Messages that it has sent stay."""
    database.client.get_schedule(name)
    ask(f"Delete schedule {name}?", yes)
    database.client.delete_schedule(name)
    if as_json:
        output.document({"schedule": name, "deleted": True})
    else:
        output.say(f"schedule {name} deleted")


def _after_now(moment: Moment | None, database: Database) -> datetime | None:
    return moment.after(database.now()) if moment else None


def _print_schedule(schedule: Schedule, done: str, as_json: bool) -> None:
    if as_json:
        output.document(documents.schedule_document(schedule))
    else:
        output.say(done)
        output.show(documents.schedule_record(schedule))
