"""``pgqueue batch``: batches of messages, at whose end another one is sent."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Final
from uuid import UUID

import typer
from psycopg.rows import dict_row

from pgqueue.cli import output
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.group import Group, top
from pgqueue.cli.options import duration
from pgqueue.cli.output import Result

app = Group(no_args_is_help=True, help="Look at batches, close them, and wait for their ends.")
top.add_typer(app, name="batch", short_help="Look at batches, and close them.")

Id = Annotated[UUID, typer.Argument(metavar="BATCH", help="The id of the batch.")]

COLUMNS: Final = (
    "id",
    "queue",
    "state",
    "total",
    "pending",
    "completed",
    "dead_lettered",
    "deleted",
    "closed_at",
    "finished_at",
)
#: Left out where a terminal is narrow.
SPARE: Final = ("dead lettered", "deleted", "closed at", "finished at")
LIST: Final = f"""
select id::text, {", ".join(COLUMNS[1:])}
  from pgqueue.batches
 cross join lateral (
       select case when finished_at is not null then 'finished'
                   when closed_at is not null then 'closed'
                   else 'open' end as state) as known
 order by created_at desc
 limit %s"""


@on_database(app, "list")
def list_(
    database: Database, limit: Annotated[int, typer.Option(min=1, help="How many to list, the newest first.")] = 100
) -> Result:
    """List the batches at whose end a message is sent to a queue that you may use; finished ones for a day."""
    with database.transaction() as connection:
        batches = connection.cursor(row_factory=dict_row).execute(LIST, [limit]).fetchall()
    return Result(batches, picture=_table, hint="there is no batch: QueueClient.create_batch() makes one")


@on_database(app, "show")
def show(database: Database, batch: Id) -> Result:
    """Show how many members a batch has, and what became of them."""
    return _counts(database.client.batch(batch).counts())


@on_database(app, "close")
def close(database: Database, batch: Id) -> Result:
    """Close a batch: it takes no more members, and is finished when the last one is settled."""
    database.client.batch(batch).close()
    return Result({"id": str(batch)}, f"batch {batch} closed")


@on_database(app, "wait")
def wait(
    database: Database,
    batch: Id,
    timeout: Annotated[
        timedelta | None, duration("How long to wait, such as 30s; by default until the batch is finished.")
    ] = None,
) -> Result:
    """Wait until a batch is finished, and show what became of its members."""
    return _counts(database.client.batch(batch).wait(timeout))


def _counts(counts: object) -> Result:
    return Result(output.plain(counts), picture=lambda found: output.record([*_titled(found).items()]))


def _titled(row: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", " "): value for name, value in row.items()}


def _table(batches: list[dict[str, Any]]) -> Any:
    rows = [list(batch.values()) for batch in batches]
    return output.table(list(_titled(dict.fromkeys(COLUMNS))), rows, wide=("queue",), spare=SPARE)
