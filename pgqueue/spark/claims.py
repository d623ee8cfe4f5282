"""The claims that a batch of a stream consists of; ``foreachBatch`` gets only the rows and the number of the batch.

The readers of the run know, because they made the claims. Each stream has one reader, in a process on the driver that
lives as long as the run. Spark calls the reader and ``foreachBatch`` from the same thread, so the reader returns what
it has planned for this batch. The database is not asked, because it knows only the claim that is open now. A driver
that was paused, and replaced by another, therefore names its own claim and its own epoch, and is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, LiteralString

from pgqueue.spark.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COMPLETE_CLAIM: LiteralString = "select pgqueue.complete_claim(%(consumer)s, %(claim)s, %(epoch)s)"
RELEASE_CLAIM: LiteralString = "select pgqueue.release_claim(%(consumer)s, %(claim)s, %(epoch)s)"

RECORD_BATCH: LiteralString = """
    select pgqueue.record_effect(%(queue)s, %(batch)s, 'in_transaction', keep => interval '30 days')
"""

QUERY_ID = "sql.streaming.queryId"
RUN_ID = "spark.jobGroup.id"  # a run is the group of its jobs
ANSWERS = "org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl"


@dataclass(frozen=True)
class Held:
    """The current claim of a consumer: its number, and the epoch of the session."""

    consumer: str
    claim: int
    epoch: int
    releases: bool
    """Whether a claim that has lost locks is released; otherwise the query fails."""
    queue: str
    is_planned: bool = False
    """Whether the current batch consists of this claim; otherwise it has none of this consumer."""


def held_for(batch: DataFrame) -> dict[str, Held]:
    """The claims of the query's current batch, by consumer.

    Raises:
        PipelineError: the call does not come from ``foreachBatch`` during its batch, or Spark gives no access to the
            readers.
    """
    if not hasattr(batch, "_jdf"):
        raise PipelineError(
            "in_transaction does not work through Spark Connect, and nothing was settled: "
            "write with format('pgqueue'), or run the query in a session of Spark's own"
        )
    with _known():
        answers = [json.loads(answer) for answer in _answers(batch)]
    names = Held.__annotations__.keys()
    held = [Held(**{name: answer[name] for name in names}) for answer in answers if names <= answer.keys()]
    return {each.consumer: each for each in held}


def name_of(batch: DataFrame, number: int) -> str:
    """The name of the query's current batch: the same when Spark repeats it, and that of no other batch.

    After an older checkpoint was restored, other batches have the same numbers, but began at other times.

    Raises:
        PipelineError: as in ``held_for``.
    """
    with _known():
        query = _query(batch)
        began = query.getLatestExecutionContext().offsetSeqMetadata().batchTimestampMs()
        return f"batch {number} of {query.id().toString()}, {began}"


@contextmanager
def _known() -> Iterator[None]:
    # Imported here, because this package can be imported without PySpark; it has no type annotations.
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    try:
        yield
    except (AttributeError, TypeError, Py4JError) as error:
        raise PipelineError(
            "the claims of this batch are unknown, so nothing was settled: call this from foreachBatch, in the thread "
            f"in which Spark calls it ({error})"
        ) from error


def _query(batch: DataFrame) -> Any:
    context: Any = batch.sparkSession.sparkContext
    queries = batch._jdf.sparkSession().sharedState().activeStreamingQueries()  # noqa: SLF001 - PySpark has no other way to the JVM
    query = queries.get(context._jvm.java.util.UUID.fromString(context.getLocalProperty(QUERY_ID)))  # noqa: SLF001 - the same
    if query.runId().toString() != context.getLocalProperty(RUN_ID):
        raise PipelineError("nothing was settled: this run of the query has ended, or its job group was changed")
    return query


def _answers(batch: DataFrame) -> Iterator[str]:
    from py4j.java_gateway import is_instance_of  # type: ignore[import-untyped]  # it has no type annotations

    sources = _query(batch).sources()
    gateway = batch.sparkSession.sparkContext._gateway  # noqa: SLF001 - the same
    for number in range(sources.size()):
        source = sources.apply(number)
        if is_instance_of(gateway, source, ANSWERS):
            offset = source.reportLatestOffset()
            if offset is not None:
                yield offset.json()
