"""Sessions: accept one, receive its messages, keep its state, renew and release its lock."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pgqueue.model.arguments import queue_name
from pgqueue.model.encoding import encode_body
from pgqueue.model.json_text import decode_jsonb
from pgqueue.model.row import SEQUENCE_NUMBER, Row
from pgqueue.model.settings import SessionProperties
from pgqueue.statements.receiving import PEEKED_COLUMNS, RECEIVED_COLUMNS
from pgqueue.statements.statement import (
    NO_LIMIT,
    Statement,
    call,
    column,
    columns_of,
    each,
    nothing,
    rows,
    scalar,
)


class SessionLock(NamedTuple):
    """The proof that a session is held: every call that it takes part in sends it to the database."""

    queue: str
    session_id: str
    lock_token: str


def accept_session(
    queue: str, session_id: str | None, *, lock_duration: timedelta | None, locked_by: str
) -> Statement[list[Row]]:
    return call(
        "select session_id, lock_token::text, locked_until from pgqueue.accept_session(…)",
        rows,
        queue=queue,
        session_id=session_id,
        lock_duration=lock_duration,
        locked_by=locked_by,
    )


def receive_from_session(lock: SessionLock, *, max_messages: int) -> Statement[list[Row]]:
    return call(
        f"select {RECEIVED_COLUMNS} from pgqueue.receive_from_session(…)",
        rows,
        lock._asdict(),
        max_messages=max_messages,
    )


def receive_deferred(lock: SessionLock, sequence_numbers: Sequence[int], *, locked_by: str) -> Statement[list[Row]]:
    return call(
        f"select {RECEIVED_COLUMNS} from pgqueue.receive_deferred(…)",
        rows,
        lock._asdict(),
        sequence_numbers=sequence_numbers,
        locked_by=locked_by,
    )


def peek_session(lock: SessionLock, *, max_messages: int, from_sequence_number: int) -> Statement[list[Row]]:
    return call(
        f"select {PEEKED_COLUMNS} from pgqueue.peek_session(…)",
        rows,
        lock._asdict(),
        max_messages=max_messages,
        from_sequence_number=from_sequence_number,
    )


def renew_session_lock(lock: SessionLock, *, lock_duration: timedelta | None) -> Statement[datetime]:
    """Returns when the renewed lock expires."""
    return call("select pgqueue.renew_session_lock(…)", scalar, lock._asdict(), lock_duration=lock_duration)


def keep_session_lock(lock: SessionLock) -> Statement[tuple[datetime, timedelta]]:
    """Renew the lock; returns when it expires, and how long it lasts from now."""
    return call(
        "select until, until - pgqueue.clock() from pgqueue.renew_session_lock(…) as until",
        lambda rows: rows[0],
        lock._asdict(),
    )


def list_sessions(queue: str) -> Statement[list[SessionProperties]]:
    return Statement(
        f"""select {columns_of(SessionProperties)}
              from pgqueue.sessions
             where queue = %(queue)s::text
             order by session_id""",
        {"queue": queue_name(queue)},
        each(SessionProperties),
        NO_LIMIT,
    )


def release_session(lock: SessionLock) -> Statement[bool]:
    """Returns whether the session was released."""
    return call("select pgqueue.release_session(…)", scalar, lock._asdict())


def get_session_state(lock: SessionLock) -> Statement[Any]:
    return call("select state, binary_state from pgqueue.get_session_state(…)", _state, lock._asdict())


def set_session_state(lock: SessionLock, state: Any) -> Statement[None]:
    json, binary = (None, None) if state is None else encode_body(state, field="state")
    return call(
        "select pgqueue.set_session_state(…)", nothing, {**lock._asdict(), "state": json, "binary_state": binary}
    )


def _state(rows: Sequence[Row]) -> Any:
    ((state, binary_state),) = rows
    return decode_jsonb(state) if binary_state is None else binary_state


def accept_and_release(
    queue: str,
    released: Sequence[SessionLock],
    *,
    max_sessions: int,
    max_messages_each: int,
    max_messages: int,
    locked_by: str,
) -> Statement[tuple[list[tuple[SessionLock, list[Row]]], list[bool]]]:
    """Accept sessions, receive the first messages of each, and release others; returns whether each was released.

    At most ``max_messages`` are received in all, but one of each session.

    These come last: what comes for a session while its release is not committed is noticed a second later.
    """

    def read(rows: Sequence[Row]) -> tuple[list[tuple[SessionLock, list[Row]]], list[bool]]:
        accepted: dict[SessionLock, list[Row]] = {}
        for _, session_id, lock_token, *row, _, _ in rows:
            if session_id is not None:
                received = accepted.setdefault(SessionLock(queue, session_id, lock_token), [])
                if row[SEQUENCE_NUMBER] is not None:
                    received.append(tuple(row))
        return list(accepted.items()), rows[0][0] or []

    return call(
        f"""  with accepted as materialized (
                   select session_id as name, lock_token as token
                     from pgqueue.accept_session(…, queue => %(queue)s::text)),
                   received as materialized (
                   select {RECEIVED_COLUMNS}, session_id as received_from, nth
                     from (select array_agg(name) as names, array_agg(token) as tokens from accepted) as held
                    cross join lateral (
                          select row_number() over () as nth, *
                            from pgqueue.receive_from_session_batch(
                                 %(queue)s::text, names, tokens,
                                 array_fill(
                                     least(%(max_messages_each)s, greatest(%(max_messages)s / cardinality(names), 1)),
                                     array[cardinality(names)]))) as message
                    where names is not null),
                   released as materialized (
                   select array_agg(is_released) as outcomes
                     from (select count(*) from received) as before
                    cross join lateral pgqueue.release_session_batch(
                          …, queue => case when before.count >= 0 then %(queue)s::text end))
            select outcomes, name, token::text, received.*
              from released
              left join (accepted left join received on received_from = name) on true
             order by nth""",
        read,
        {
            **_proofs(released),
            "queue": queue_name(queue),
            "max_sessions": max_sessions,
            "max_messages_each": max_messages_each,
            "max_messages": max_messages,
            "locked_by": locked_by,
        },
    )


def receive_from_sessions(
    queue: str, locks: Sequence[SessionLock], max_messages: Sequence[int]
) -> Statement[list[Row]]:
    """Receive up to so many messages of each of these sessions; if a lock is lost, of none."""
    return call(
        f"select {RECEIVED_COLUMNS} from pgqueue.receive_from_session_batch(…)",
        rows,
        {**_proofs(locks), "max_messages_each": list(max_messages)},
        queue=queue,
    )


def release_sessions(queue: str, locks: Sequence[SessionLock]) -> Statement[list[bool]]:
    """Returns for each session whether it was released."""
    return call("select is_released from pgqueue.release_session_batch(…)", column, _proofs(locks), queue=queue)


def _proofs(locks: Sequence[SessionLock]) -> dict[str, Any]:
    return {
        "session_ids": [lock.session_id for lock in locks],
        "lock_tokens": [lock.lock_token for lock in locks],
    }
