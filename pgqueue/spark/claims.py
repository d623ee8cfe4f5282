"""Which claims a batch of a stream is made of: ``foreachBatch`` is given its rows and its number, and neither says.

The readers of the run know, for they have claimed. There is one for each stream, in a process on the driver that lives
as long as the run. Spark calls it from the thread that also calls ``foreachBatch``; asked by that thread, it answers
what it has planned for this batch. It is never the database that is asked, for that knows what is open by now: a
driver that was paused, and overtaken by another, names its own claim in its own epoch, and is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pgqueue.spark.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERY_ID = "sql.streaming.queryId"
RUN_ID = "spark.jobGroup.id"  # a run is the group of its jobs
ANSWERS = "org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl"


@dataclass(frozen=True)
class Held:
    """What a consumer works on: a claim, by its number, and the epoch of the session that works on it."""

    consumer: str
    claim: int
    epoch: int


def held_for(batch: DataFrame) -> dict[str, Held]:
    """What the streams of a query hold for the batch that it is working on, by consumer.

    Raises:
        PipelineError: the call does not come from ``foreachBatch`` during its batch, or Spark does not let the readers
            be asked.
    """
    # It comes with PySpark, without which this package can be imported; and it says nothing of types.
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    try:
        answers = [json.loads(answer) for answer in _answers(batch)]
    except (AttributeError, TypeError, Py4JError) as error:
        raise PipelineError(
            "it is not known which claims this batch is made of, so nothing was settled: call this from foreachBatch, "
            f"in the thread that Spark calls, and without Spark Connect ({error})"
        ) from error
    held = [Held(**answer) for answer in answers if answer.keys() == Held.__annotations__.keys()]
    return {each.consumer: each for each in held}


def _answers(batch: DataFrame) -> Iterator[str]:
    from py4j.java_gateway import is_instance_of  # type: ignore[import-untyped]  # it says nothing of types

    context: Any = batch.sparkSession.sparkContext
    queries = batch._jdf.sparkSession().sharedState().activeStreamingQueries()  # noqa: SLF001 - PySpark has no other way to the JVM
    query = queries.get(context._jvm.java.util.UUID.fromString(context.getLocalProperty(QUERY_ID)))  # noqa: SLF001 - the same
    if query.runId().toString() != context.getLocalProperty(RUN_ID):
        raise PipelineError("nothing was settled: this run of the query is over, or its jobs were given another group")
    sources = query.sources()
    for number in range(sources.size()):
        source = sources.apply(number)
        if is_instance_of(context._gateway, source, ANSWERS):  # noqa: SLF001 - the same
            offset = source.reportLatestOffset()
            if offset is not None:
                yield offset.json()
