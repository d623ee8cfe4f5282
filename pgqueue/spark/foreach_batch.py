"""Completes a batch of a stream in one transaction with its effects, if these are in the queue's database."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import psycopg

from pgqueue.model.schemas import DEFAULT, in_schema
from pgqueue.spark import claims
from pgqueue.spark.claims import COMPLETE_CLAIM, RECORD_BATCH, RELEASE_CLAIM, Held
from pgqueue.spark.connections import Instance, retried_until_known
from pgqueue.spark.errors import OptionError
from pgqueue.spark.options import ENVIRONMENT, SCHEMA_ENVIRONMENT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOCK_LOST = "PQ001"

logger = logging.getLogger("pgqueue.spark")

Work = Callable[["DataFrame", psycopg.Connection[Any]], None]


def in_transaction(
    *consumers: str, dsn: str | None = None, schema: str | None = None
) -> Callable[[Work], Callable[[DataFrame, int], None]]:
    """A decorator for ``foreachBatch``: completes the messages of a batch in the transaction of its work.

    The transaction first completes the claims of the batch, which proves and pins every lock. Then the work is called
    with the batch and the connection, and both are committed. If Spark could not record that the batch was done, it
    passes the batch again; the claims are completed already, and the work is not called again. A batch that has no
    claim, but rows of another source in a union or windows that were closed, is recorded in the transaction, and for 30
    days the work is not called again for it. So the effects happen exactly once, whatever crashes. If the connection is
    lost, all of it is repeated in a new transaction, for a minute; the work is called again then.

    Args:
        consumers: the ``consumer`` of each stream from a queue that the query reads.
        dsn: the database; ``PGQUEUE_DSN`` by default.
        schema: the schema of pgqueue there; ``PGQUEUE_SCHEMA`` by default, or ``pgqueue``.

    Raises:
        psycopg.Error: raised by the query, with the SQLSTATE ``PQ010`` if another query uses the consumer now, which
            settles the claim, or ``PQ001`` if the lock of a message was lost and the stream has the option
            ``onLostLocks`` with the value ``fail``; by default the batch is then given back. Nothing was done.
        PipelineError: raised by the query: the function was not called by ``foreachBatch``, or the query does not read
            for the consumer that was named.

    Example:
        ::

            @pgqueue.spark.in_transaction("ledger")
            def post(batch, tx):
                for row in batch.groupBy("subject").count().collect():
                    tx.execute("insert into ledger values (%s, %s)", [row["subject"], row["count"]])

            stream.writeStream.foreachBatch(post).option("checkpointLocation", "...").start()
    """
    where = dsn or os.environ.get(ENVIRONMENT)
    if not consumers or not where:
        raise OptionError(f"in_transaction needs the name of a consumer, and a dsn unless {ENVIRONMENT} is set")
    instance = Instance(where, schema or os.environ.get(SCHEMA_ENVIRONMENT) or DEFAULT)
    database = Instance(where)  # without the schema: statements of the work are executed as they are written

    def wrap(work: Work) -> Callable[[DataFrame, int], None]:
        def settle(batch: DataFrame, batch_id: int) -> None:
            held = _held_by(consumers, claims.held_for(batch))
            name = _name_without_claim(batch, batch_id, held)

            def settle_once(transaction: psycopg.Connection[Any]) -> bool:
                is_new = _is_new(transaction, held, name, instance.schema)
                if is_new:
                    work(batch, transaction)
                return is_new

            try:
                is_new = retried_until_known(database, settle_once)
                if name is not None and not is_new:  # stateful operators still have to process it
                    batch.write.format("noop").mode("overwrite").save()
            except _LocksLost as lost:
                _raise_unless_released(lost, held)
                logger.warning("%s: the batch is given back", lost.error.diag.message_primary)
                retried_until_known(database, lambda transaction: _release(transaction, held, instance.schema))

        return settle

    return wrap


class _LocksLost(Exception):
    """Messages of a claim belong to others by now."""

    def __init__(self, error: psycopg.Error) -> None:
        super().__init__(str(error))
        self.error = error


def _name_without_claim(batch: DataFrame, number: int, held: Sequence[Held]) -> str | None:
    return None if any(each.is_planned for each in held) else claims.name_of(batch, number)


def _is_new(transaction: psycopg.Connection[Any], held: Sequence[Held], name: str | None, schema: str) -> bool:
    """Complete the claims; return whether the batch was not done before. Its name is recorded if it has no claim."""
    was_open = _complete(transaction, held, schema)
    return was_open if name is None else _record(transaction, held, name, schema)


def _complete(transaction: psycopg.Connection[Any], held: Sequence[Held], schema: str) -> bool:
    """Complete the claims; return whether any was still open."""
    complete = in_schema(COMPLETE_CLAIM, schema)
    try:
        return (True,) in [transaction.execute(complete, asdict(each)).fetchone() for each in held]
    except psycopg.Error as error:
        if error.sqlstate != LOCK_LOST:
            raise
        raise _LocksLost(error) from error


def _record(transaction: psycopg.Connection[Any], held: Sequence[Held], name: str, schema: str) -> bool:
    """Record a batch without a claim; return whether it was not recorded before."""
    first = min(held, key=lambda each: each.consumer)  # the same in whatever order they are named
    record = in_schema(RECORD_BATCH, schema)
    return transaction.execute(record, {"queue": first.queue, "batch": name}).fetchone() == (True,)


def _raise_unless_released(lost: _LocksLost, held: Sequence[Held]) -> None:
    if not all(each.releases for each in held):
        raise lost.error from None


def _release(transaction: psycopg.Connection[Any], held: Sequence[Held], schema: str) -> None:
    """Release all claims of the batch: Spark records the batch as done, and a claim left open would be completed."""
    for each in held:
        transaction.execute(in_schema(RELEASE_CLAIM, schema), asdict(each))


def _held_by(consumers: Sequence[str], held: Mapping[str, Held]) -> list[Held]:
    missing = [consumer for consumer in consumers if consumer not in held]
    if missing:
        raise OptionError(f"the query has no stream of consumer {missing[0]!r}, only of {', '.join(held) or 'none'}")
    return [held[consumer] for consumer in consumers]
