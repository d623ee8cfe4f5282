"""The progress of a pipeline, reported while it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

from pgqueue.spark.connections import Instance, first_row
from pgqueue.spark.reading import clock

EVERY_SECONDS = 1.0


@dataclass(frozen=True)
class Progress:
    """The rows that were read or written so far, and the batches that are done."""

    rows: int
    batches: int = 0


#: Called from a thread of the pipeline, about once a second or after each batch.
Tell = Callable[[Progress], None]

# The server reports the rows of a running COPY; the table's statistics have those of a finished one.
STAGED_SO_FAR = """
    select coalesce((select sum(pg_stat_get_tuples_inserted(to_regclass('pgqueue.' || name)))
                       from pgqueue._staged_batch
                      where queue = %(queue)s and staged_at >= %(since)s), 0)
         + coalesce((select sum(tuples_processed)
                       from pg_stat_progress_copy
                       join pg_stat_activity using (pid)
                      where application_name = %(application)s), 0)
"""


@contextmanager
def staging_watched(instance: Instance, queue: str, application: str, tell: Tell | None) -> Iterator[None]:
    """Report how many rows were staged for a queue, until the end of the block. Errors of this query are ignored."""
    if tell is None:
        yield
        return
    over = threading.Event()
    watch = threading.Thread(target=_watch, args=(instance, queue, application, tell, over), daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()
        watch.join()


def _watch(instance: Instance, queue: str, application: str, tell: Tell, over: threading.Event) -> None:
    most = 0
    try:
        with instance.connect(autocommit=True) as connection:
            since = clock(connection)
            while not over.wait(EVERY_SECONDS):
                known = {"queue": queue, "since": since, "application": application}
                most = max(most, int(first_row(connection, STAGED_SO_FAR, known)[0]))
                tell(Progress(most))
    except psycopg.Error:
        return
