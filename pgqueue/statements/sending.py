"""Sending: one message, or many in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

from pgqueue.errors import InvalidArgumentError
from pgqueue.model.arguments import queue_name, shown
from pgqueue.model.columns import MESSAGE
from pgqueue.model.encoding import NOTHING, Columns, EncodedMessage, columns
from pgqueue.model.message import OnConflict, SequenceNumber
from pgqueue.model.row import Row
from pgqueue.statements.statement import Statement, call, nothing, scalar

#: The arguments of many messages.
GIVEN_ARRAYS: Final = ", ".join(
    f"{column.arrays} => %({column.name})b::{'text[]::jsonb' if column.type == 'jsonb' else column.type}[]"
    for column in MESSAGE
)


@dataclass(frozen=True)
class Stored:
    """Messages that a transaction has stored but not committed yet.

    ``server_run`` identifies one run of the server: a crash or a failover may forget transaction ids, which are then
    assigned again.
    """

    transaction_id: str
    server_run: str
    numbers: list[SequenceNumber]


def send(queue: str, message: EncodedMessage, on_conflict: OnConflict = "ignore") -> Statement[SequenceNumber]:
    values = {"body": message.body} if message[1:] == NOTHING[1:] else message._asdict()
    values["queue"] = queue_name(queue)
    given = {} if on_conflict == "ignore" else _checked(on_conflict)
    return call("select pgqueue.send(…, negate_duplicate => true)", _number, values, **given)


def send_batch(
    queue: str, messages: Sequence[EncodedMessage], on_conflict: OnConflict = "ignore"
) -> Statement[list[SequenceNumber]]:
    given = {} if on_conflict == "ignore" else _checked(on_conflict)
    return call(
        f"select pgqueue.send_batch(…, {GIVEN_ARRAYS}, negate_duplicates => true)",
        _numbers,
        columns(messages),
        queue=queue,
        **given,
    )


def send_bodies(queue: str, bodies: Columns) -> Statement[list[SequenceNumber]]:
    """Send messages of which only the bodies are set."""
    return call(
        "select pgqueue.send_batch(…, bodies => %(body)b::text[]::jsonb[], binary_bodies => %(binary_body)b::bytea[],"
        " negate_duplicates => true)",
        _numbers,
        bodies,
        queue=queue,
    )


def _checked(on_conflict: object) -> dict[str, Any]:
    if on_conflict not in get_args(OnConflict):
        raise InvalidArgumentError(f"on_conflict must be 'ignore', 'replace' or 'raise', not {shown(on_conflict)}")
    return {"on_conflict": on_conflict}


def cancel_scheduled(queue: str, sequence_numbers: Sequence[int]) -> Statement[None]:
    return call("select pgqueue.cancel_scheduled(…)", nothing, queue=queue, sequence_numbers=sequence_numbers)


def store(queue: str, messages: Sequence[EncodedMessage]) -> Statement[Stored]:
    """Send in an open transaction, and return its id."""
    sent = send(queue, messages[0]) if len(messages) == 1 else send_batch(queue, messages)
    return Statement(
        f"select pg_current_xact_id()::text, pgqueue.server_run(), array({sent.sql})",
        sent.parameters,
        _stored,
    )


def outcome(stored: Stored) -> Statement[str]:
    """The outcome of a transaction: 'committed', 'aborted', 'in progress', or 'unknown'.

    Unknown: the server has crashed or a standby was promoted, so a committed transaction of this id may be another one.
    A standby may not have replayed the transaction yet: there it is in progress.

    Raises 22023 for an id that the server has not assigned, or does not know any more to have assigned.
    """
    return Statement(
        """select case when pg_is_in_recovery() then 'in progress' else (
                       select case when status = 'committed' and pgqueue.server_run() <> %(server_run)s::text
                                   then 'unknown' else coalesce(status, 'unknown') end
                         from (select pg_xact_status(%(transaction_id)s::text::xid8)) as known (status)) end""",
        {"transaction_id": stored.transaction_id, "server_run": stored.server_run},
        scalar,
    )


def _stored(rows: Sequence[Row]) -> Stored:
    ((transaction_id, server_run, numbers),) = rows
    return Stored(transaction_id, server_run, [_read_number(number) for number in numbers])


def _number(rows: Sequence[Row]) -> SequenceNumber:
    return _read_number(rows[0][0])


def _numbers(rows: Sequence[Row]) -> list[SequenceNumber]:
    return [_read_number(number) for (number,) in rows]


def _read_number(number: int) -> SequenceNumber:
    """The number of a duplicate is negative."""
    if number > 0:
        return SequenceNumber(number)
    duplicate = SequenceNumber(-number)
    duplicate.is_duplicate = True
    return duplicate
