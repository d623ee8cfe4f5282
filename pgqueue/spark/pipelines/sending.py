"""Sends rows to a queue under a name, so that repeated attempts send them once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg.conninfo import make_conninfo
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from pgqueue.spark.connections import Instance, first_row, retried_until_known
from pgqueue.spark.errors import OptionError
from pgqueue.spark.pipelines.progress import Tell, staging_watched
from pgqueue.spark.writing import JOB, TASK

#: With atomicity=task: about how much one transaction sends, in bytes of files and in rows. Rows are spread by a hash,
#: so a part has a few per cent more or less; 100,000 are published in a second (ADR 21).
BYTES_OF_A_PART = 64 * 1024 * 1024
ROWS_OF_A_PART = 90_000
LONGEST_SAMPLE = 5

PUBLISHED = """
    select count(*)::int, coalesce(sum(sent), 0)::bigint, coalesce(sum(duplicates), 0)::bigint
      from pgqueue._published_batch
     where queue = %s and publisher = %s
"""


LAYOUTS = """
    select distinct publisher
      from pgqueue._published_batch
     where queue = %(queue)s
       and (publisher = %(job)s or starts_with(publisher, %(job)s || ' in ') and publisher ~ ' in [0-9]+ parts$')
"""


@dataclass(frozen=True)
class Published:
    """The messages sent under a name: in how many parts, and how many messages were sent or were duplicates."""

    parts: int
    sent: int
    duplicates: int


def published(instance: Instance, queue: str, job: str) -> Published:
    """The messages that were sent to a queue under this name until now."""
    known = [queue, f"job {job}"]
    return Published(*retried_until_known(instance, lambda connection: first_row(connection, PUBLISHED, known)))


def in_parts(job: str, parts: int) -> str:
    """The name of a job in this many parts: the content of a part depends on their number."""
    return job if parts == 1 else f"{job} in {parts} parts"


def refuse_other_layout(instance: Instance, queue: str, job: str, parts: int) -> None:
    """Raise :class:`OptionError` if a job was sent in another number of parts: the missing rows are then unknown."""
    with instance.connect() as connection:
        known = [publisher for (publisher,) in connection.execute(LAYOUTS, {"queue": queue, "job": f"job {job}"})]
    others = [publisher for publisher in known if publisher != f"job {in_parts(job, parts)}"]
    if others:
        raise OptionError(
            f"the job {others[0]!r} was sent with other files or another atomicity: "
            "give this job another name, or send the same as before"
        )


def parts_of(size: int, rows: int) -> int:
    """The number of transactions for files of this size with so many rows; it depends on nothing else."""
    return 1 + max(size // BYTES_OF_A_PART, rows // ROWS_OF_A_PART)


def parted(rows: DataFrame, atomicity: str, parts: int) -> DataFrame:
    """Divide the rows into the parts that are sent.

    The part of a row depends on the row alone, not on the cluster, so that the parts are the same at every attempt.
    """
    if atomicity != TASK:
        return rows
    every = F.struct(*(F.col(f"`{name.replace('`', '``')}`") for name in rows.columns))
    return rows.repartition(parts, F.xxhash64(F.to_json(every)))


def send_once(
    messages: DataFrame, queue: str, *, instance: Instance, job: str, atomicity: str = JOB, progress: Tell | None = None
) -> Published:
    """Send messages, unless they were sent under this name before; return what was sent under it, now or before.

    Raises:
        pgqueue.spark.errors.PipelineError: a column or a row cannot be sent; in the form in which Spark raises it.
    """
    application = f"pgqueue {job}"[:63]
    writer = messages.write.format("pgqueue").mode("append")
    options: dict[str, Any] = {"schema": instance.schema, "queue": queue, "job": job, "atomicity": atomicity}
    with staging_watched(instance, queue, application, progress):
        writer.options(dsn=make_conninfo(instance.dsn, application_name=application), **options).save()
    return published(instance, queue, job)


def sample(rows: DataFrame) -> tuple[dict[str, Any], ...]:
    """A few rows, for display."""
    return tuple(row.asDict(recursive=True) for row in rows.limit(LONGEST_SAMPLE).collect())
