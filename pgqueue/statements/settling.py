"""Settling and renewing: every statement sends the lock token."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, LiteralString, TypeVar

from pgqueue.errors import LockLostError, PGQueueError, error_class
from pgqueue.model.body_type import BodyType
from pgqueue.model.context import TransactionId
from pgqueue.model.encoding import UNCHANGED, encode_body, to_json
from pgqueue.model.failure import error_document
from pgqueue.model.message import Lock
from pgqueue.model.properties import as_json
from pgqueue.model.row import Row
from pgqueue.model.settings import SettlementResult
from pgqueue.statements.statement import Statement, call, column, each, nothing, rows, scalar

T = TypeVar("T")

#: The errors of the messages of a batch that were not settled, by sequence number.
Refusals = Mapping[int, Exception]

_QUEUE = "%(queue)s::text"
_LOCK = f"{_QUEUE}, %(sequence_number)s::bigint, %(lock_token)s::uuid"
_IN_TRANSACTION = "pg_current_xact_id_if_assigned() = %(pinned_in)s::xid8"


def _proof(lock: Lock) -> dict[str, Any]:
    return {"queue": lock.queue, "sequence_number": lock.sequence_number, "lock_token": lock.lock_token}


def _proofs(queue: str, locks: Sequence[Lock]) -> dict[str, Any]:
    return {
        "queue": queue,
        "sequence_numbers": _array([lock.sequence_number for lock in locks]),
        "lock_tokens": _array([lock.lock_token for lock in locks]),
    }


def _array(values: Iterable[int | str]) -> str:
    """An array as PostgreSQL text: drivers take longer to write an array."""
    return "{" + ",".join(map(str, values)) + "}"


def _properties(properties: Any) -> str | None:
    return None if properties is None else to_json("properties", as_json(properties))


def _error(error: Any) -> str | None:
    return None if error is None else to_json("error", error_document(error))


def pin(lock: Lock, *, release_advisory_locks: bool = False) -> Statement[TransactionId]:
    """Returns the id of the transaction that the message is pinned in.

    Before that it may release the advisory locks that other work has left in the session.
    """
    return Statement(
        f"select pgqueue._pin_delivery({_LOCK}, %(release_advisory_locks)s::boolean)",
        {**_proof(lock), "release_advisory_locks": release_advisory_locks},
        lambda rows: TransactionId(*rows[0][0].split(" ", 1)),
    )


def pin_batch(queue: str, locks: Sequence[Lock]) -> Statement[list[tuple[str | None, TransactionId]]]:
    """Returns for each lock the SQLSTATE of its refusal, if any, and the id of the transaction."""
    return call(
        """select sqlstate, pg_current_xact_id()::text, server_run
             from pgqueue.pin_batch(…)
            cross join (select pgqueue.server_run()) as this (server_run)""",
        lambda rows: [(sqlstate, TransactionId(*known)) for sqlstate, *known in rows],
        _proofs(queue, locks),
    )


def in_transaction(transaction_id: str, statement: Statement[T]) -> Statement[T]:
    """The statement, refused before it does anything unless it runs in this transaction."""
    queue = (
        f"case when {_IN_TRANSACTION} then {_QUEUE} else pgqueue._refuse_transaction({_QUEUE}, %(pinned_in)s::xid8) end"
    )
    parameters = {**statement.parameters, "pinned_in": str(transaction_id)}
    return Statement(statement.sql.replace(_QUEUE, queue), parameters, statement.read)


def prove_transaction(transaction_id: str, queue: str) -> Statement[None]:
    """Refused unless it runs in this transaction."""
    return in_transaction(transaction_id, Statement(f"select {_QUEUE}", {"queue": queue}, nothing))


def complete(lock: Lock, *, result: Any = None) -> Statement[str]:
    """Returns the id of the transaction that deletes the message."""
    known = _proof(lock)
    if result is not None:
        known["result"] = to_json("result", result)
    return call("select pgqueue.complete(…)::text", scalar, known)


def complete_pinned(lock: Lock, pinned_in: TransactionId) -> Statement[None]:
    """Refused before it does anything unless it runs in this transaction, which pins the message."""
    return Statement(
        f"select pgqueue._complete_delivery({_LOCK}, %(pinned_in)s::xid8)",
        {**_proof(lock), "pinned_in": str(pinned_in)},
        nothing,
    )


def abandon(lock: Lock, *, delay: timedelta | None, properties: Any, error: Any = None) -> Statement[None]:
    known = {**_proof(lock), "properties": _properties(properties), "error": _error(error)}
    return call("select pgqueue.abandon(…)", nothing, known, delay=delay)


def postpone(
    lock: Lock, *, delay: timedelta, body: Any = UNCHANGED, body_type: BodyType | None = None
) -> Statement[None]:
    json, binary = (None, None) if body is UNCHANGED else encode_body(body, body_type)
    known = {**_proof(lock), "body": json, "binary_body": binary}
    return call("select pgqueue.postpone(…)", nothing, known, delay=delay)


def dead_letter(
    lock: Lock,
    *,
    reason: str,
    description: str | None,
    body: Any = UNCHANGED,
    properties: Any = None,
    error: Any = None,
) -> Statement[str]:
    """Returns the id of the transaction that moves the message. A ``body`` replaces that of the message."""
    known = {
        **_proof(lock),
        "body": None if body is UNCHANGED else to_json("body", body),
        "properties": _properties(properties),
        "error": _error(error),
    }
    return call("select pgqueue.dead_letter(…)::text", scalar, known, reason=reason, description=description)


def defer(lock: Lock, *, properties: Any) -> Statement[str]:
    """Returns the id of the transaction that defers the message."""
    return call("select pgqueue.defer(…)::text", scalar, {**_proof(lock), "properties": _properties(properties)})


def renew_lock(lock: Lock, *, lock_duration: timedelta | None) -> Statement[datetime]:
    """Returns when the renewed lock expires."""
    return call("select pgqueue.renew_lock(…)", scalar, _proof(lock), lock_duration=lock_duration)


def keep_locks(queue: str, locks: Sequence[Lock]) -> Statement[list[tuple[datetime | None, timedelta | None]]]:
    """Renew locks; returns for each when it expires and how long it lasts from now, or nothing if it is lost."""
    return call(
        "select locked_until, locked_until - pgqueue.clock() from pgqueue.renew_lock_batch(…)",
        rows,
        _proofs(queue, locks),
    )


def resolve(lock: Lock, transaction_id: TransactionId | None, locked_until: datetime | None) -> Statement[str]:
    """Returns ``committed``, ``aborted`` or ``in progress``; ``gone`` if the outcome cannot be known any more."""
    known = {
        **_proof(lock),
        "transaction_id": _id(transaction_id),
        "server_run": _server_run(transaction_id),
        "locked_until": locked_until,
    }
    return call("select pgqueue.resolve(…)", scalar, known)


def transaction_status(transaction_id: TransactionId) -> Statement[str | None]:
    """Returns the status of a transaction, as any role may ask."""
    return Statement("select pg_catalog.pg_xact_status(%(id)s::text::xid8)", {"id": transaction_id}, scalar)


def resolve_batch(
    queue: str,
    locks: Sequence[Lock],
    transaction_ids: Sequence[TransactionId | None],
    locked_until: Sequence[datetime | None],
) -> Statement[list[str]]:
    """Returns for each lock what :func:`resolve` returns."""
    return Statement(
        """select outcome
             from unnest(%(sequence_numbers)s::bigint[], %(lock_tokens)s::uuid[], %(transaction_ids)s::xid8[],
                         %(server_runs)s::text[], %(locked_until)s::timestamptz[])
                  with ordinality as held (number, token, xid, run, locked_until, nth)
            cross join pgqueue.resolve(%(queue)s::text, number, token, xid, run, locked_until) as outcome
            order by nth""",
        {
            **_proofs(queue, locks),
            "transaction_ids": [_id(each) for each in transaction_ids],
            "server_runs": [_server_run(each) for each in transaction_ids],
            "locked_until": list(locked_until),
        },
        column,
    )


def _id(transaction_id: TransactionId | None) -> str | None:
    return None if transaction_id is None else str(transaction_id)


def _server_run(transaction_id: TransactionId | None) -> str | None:
    return None if transaction_id is None else transaction_id.server_run


def with_transaction_id(settlement: Statement[str]) -> Statement[TransactionId]:
    """Returns the id that the settlement returns, with the run of the server."""
    return Statement(
        f"select id, pgqueue.server_run() from ({settlement.sql}) as settled (id)",
        settlement.parameters,
        lambda rows: TransactionId(*rows[0]),
    )


def batch_with_transaction_id(batch: Statement[Any]) -> Statement[TransactionId]:
    """Returns the id of the transaction, or of the savepoint in it, that a batch is part of; it settles all or none."""
    return Statement(
        f"""select pgqueue._settling_xid()::text, pgqueue.server_run(), refused
              from (select count(*) from ({batch.sql}) as refusal) as settled (refused)""",
        batch.parameters,
        _id_of_a_whole_batch,
    )


def _id_of_a_whole_batch(rows: Sequence[Row]) -> TransactionId:
    *known, refused = rows[0]
    assert not refused, "the statement itself is refused if one of its messages is"
    return TransactionId(*known)


def _settle_batch(verb: LiteralString, known: Mapping[str, Any], **given: Any) -> Statement[Refusals]:
    return call(f"select sequence_number, sqlstate from {verb} where sqlstate is not null", _refusals, known, **given)


def complete_batch(queue: str, locks: Sequence[Lock], *, atomic: bool) -> Statement[Refusals]:
    known = {**_proofs(queue, locks), "atomic": atomic}
    return _settle_batch("pgqueue.complete_batch(…)", known)


def abandon_batch(
    queue: str, locks: Sequence[Lock], *, delay: timedelta | None, properties: Any, error: Any, atomic: bool
) -> Statement[Refusals]:
    known = {
        **_proofs(queue, locks),
        "properties": _properties(properties),
        "error": _error(error),
        "atomic": atomic,
    }
    return _settle_batch("pgqueue.abandon_batch(…)", known, delay=delay)


def dead_letter_batch(
    queue: str,
    locks: Sequence[Lock],
    *,
    reason: str,
    description: str | None,
    properties: Any,
    error: Any,
    atomic: bool,
) -> Statement[Refusals]:
    known = {
        **_proofs(queue, locks),
        "properties": _properties(properties),
        "error": _error(error),
        "atomic": atomic,
    }
    return _settle_batch(
        "pgqueue.dead_letter_batch(…)",
        known,
        reason=reason,
        description=description,
    )


def defer_batch(queue: str, locks: Sequence[Lock], *, properties: Any, atomic: bool) -> Statement[Refusals]:
    known = {**_proofs(queue, locks), "properties": _properties(properties), "atomic": atomic}
    return _settle_batch("pgqueue.defer_batch(…)", known)


def release_batch(queue: str, locks: Sequence[Lock]) -> Statement[Refusals]:
    return _settle_batch("pgqueue.release_batch(…)", _proofs(queue, locks))


def renew_lock_batch(
    queue: str, locks: Sequence[Lock], *, lock_duration: timedelta | None, atomic: bool
) -> Statement[list[SettlementResult]]:
    return call(
        "select sequence_number, sqlstate, locked_until from pgqueue.renew_lock_batch(…)",
        each(_renewed),
        {**_proofs(queue, locks), "atomic": atomic},
        lock_duration=lock_duration,
    )


def _refusals(rows: Sequence[Row]) -> Refusals:
    return {sequence_number: _refusal(sequence_number, sqlstate) for sequence_number, sqlstate in rows}


def _refusal(sequence_number: int, sqlstate: str) -> PGQueueError:
    kind = error_class(sqlstate) or LockLostError
    return kind(f"the lock on message {sequence_number} is lost", sqlstate=sqlstate)


def _renewed(sequence_number: int, sqlstate: str | None, locked_until: datetime | None) -> SettlementResult:
    error = None if sqlstate is None else _refusal(sequence_number, sqlstate)
    return SettlementResult(sequence_number, error, locked_until)
