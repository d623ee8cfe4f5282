"""Sessions: accept one, receive its messages, keep its state, renew and release its lock."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from pgqueue.model.encoding import encode_body
from pgqueue.model.json_text import json_text
from pgqueue.model.row import SEQUENCE_NUMBER, Row
from pgqueue.model.settings import SessionProperties
from pgqueue.statements.arguments import duration, numbers, queue_name, text, whole
from pgqueue.statements.receiving import RECEIVED_COLUMNS
from pgqueue.statements.statement import NO_LIMIT, Statement, column, nothing, rows, scalar


class SessionLock(NamedTuple):
    """The proof that a session is held: every call that it takes part in sends it to the database."""

    queue: str
    session_id: str
    lock_token: str


def accept_session(
    queue: str, session_id: str | None, *, lock_duration: timedelta | None, locked_by: str
) -> Statement[list[Row]]:
    return Statement(
        """select session_id, lock_token::text, locked_until
             from pgqueue.accept_session(
                  %(queue)s::text, %(session_id)s::text, %(lock_duration)s::interval, %(locked_by)s::text)""",
        {
            "queue": queue_name(queue),
            "session_id": text("session_id", session_id),
            "lock_duration": duration("lock_duration", lock_duration),
            "locked_by": locked_by,
        },
        rows,
    )


def receive_from_session(lock: SessionLock, *, max_messages: int) -> Statement[list[Row]]:
    return Statement(
        f"""select {RECEIVED_COLUMNS}
              from pgqueue.receive_from_session(
                   %(queue)s::text, %(session_id)s::text, %(lock_token)s::uuid, %(max_messages)s::integer)""",
        {**lock._asdict(), "max_messages": whole("max_messages", max_messages)},
        rows,
    )


def receive_deferred(lock: SessionLock, sequence_numbers: Sequence[int], *, locked_by: str) -> Statement[list[Row]]:
    return Statement(
        f"""select {RECEIVED_COLUMNS}
              from pgqueue.receive_deferred(
                   %(queue)s::text, %(sequence_numbers)s::bigint[], null, %(locked_by)s::text,
                   %(session_id)s::text, %(lock_token)s::uuid)""",
        {
            **lock._asdict(),
            "sequence_numbers": numbers("sequence_numbers", sequence_numbers),
            "locked_by": locked_by,
        },
        rows,
    )


def renew_session_lock(lock: SessionLock, *, lock_duration: timedelta | None) -> Statement[datetime]:
    """Returns when the renewed lock expires."""
    return Statement(
        """select pgqueue.renew_session_lock(
               %(queue)s::text, %(session_id)s::text, %(lock_token)s::uuid, %(lock_duration)s::interval)""",
        {**lock._asdict(), "lock_duration": duration("lock_duration", lock_duration)},
        scalar,
    )


def keep_session_lock(lock: SessionLock) -> Statement[tuple[datetime, timedelta]]:
    """Renew the lock; returns when it expires, and how long it lasts from now."""
    return Statement(
        """select until, until - pgqueue.clock()
             from pgqueue.renew_session_lock(%(queue)s::text, %(session_id)s::text, %(lock_token)s::uuid) as until""",
        lock._asdict(),
        lambda rows: rows[0],
    )


def list_sessions(queue: str) -> Statement[list[SessionProperties]]:
    return Statement(
        """select session_id, is_locked, locked_by, locked_until, messages, oldest_age, available_at, state_size
             from pgqueue.sessions
            where queue = %(queue)s::text
            order by session_id""",
        {"queue": queue_name(queue)},
        lambda rows: [SessionProperties(*row) for row in rows],
        NO_LIMIT,
    )


def release_session(lock: SessionLock) -> Statement[bool]:
    """Returns whether the session was released."""
    return Statement(
        "select pgqueue.release_session(%(queue)s::text, %(session_id)s::text, %(lock_token)s::uuid)",
        lock._asdict(),
        scalar,
    )


def get_session_state(lock: SessionLock) -> Statement[Any]:
    return Statement(
        """select state, binary_state
             from pgqueue.get_session_state(%(queue)s::text, %(session_id)s::text, %(lock_token)s::uuid)""",
        lock._asdict(),
        _state,
    )


def set_session_state(lock: SessionLock, state: Any) -> Statement[None]:
    json, binary = (None, None) if state is None else encode_body(state, field="state")
    return Statement(
        """select pgqueue.set_session_state(
               %(queue)s::text, %(session_id)s::text, %(lock_token)s::uuid,
               %(state)s::jsonb, %(binary_state)s::bytea)""",
        {**lock._asdict(), "state": json, "binary_state": binary},
        nothing,
    )


def _state(rows: Sequence[Row]) -> Any:
    ((state, binary_state),) = rows
    text = json_text(state)
    return binary_state if text is None else text.decoded()


def accept_and_receive(queue: str, *, locked_by: str) -> Statement[tuple[SessionLock, Row | None] | None]:
    """Accept the next session and receive its first message; None if no session is available."""

    def read(rows: Sequence[Row]) -> tuple[SessionLock, Row | None] | None:
        if not rows:
            return None
        session_id, lock_token, *row = rows[0]
        return SessionLock(queue, session_id, lock_token), None if row[SEQUENCE_NUMBER] is None else tuple(row)

    return Statement(
        f"""select accepted.session_id, accepted.lock_token::text, received.*
              from pgqueue.accept_session(%(queue)s::text, null, null, %(locked_by)s::text) as accepted
              left join lateral (
                   select {RECEIVED_COLUMNS}
                     from pgqueue.receive_from_session(%(queue)s::text, accepted.session_id, accepted.lock_token))
                   as received on true""",
        {"queue": queue_name(queue), "locked_by": locked_by},
        read,
    )


def receive_from_sessions(queue: str, locks: Sequence[SessionLock]) -> Statement[list[Row]]:
    """Receive the next message of each of these sessions; if a lock is lost, of none."""
    return Statement(
        f"""select received.*
              from {_HELD}
             cross join lateral (
                   select {RECEIVED_COLUMNS}
                     from pgqueue.receive_from_session(%(queue)s::text, held.session_id, held.lock_token))
                   as received""",
        _proofs(queue, locks),
        rows,
    )


def release_sessions(queue: str, locks: Sequence[SessionLock]) -> Statement[list[bool]]:
    """Returns for each session whether it was released."""
    return Statement(
        f"select pgqueue.release_session(%(queue)s::text, held.session_id, held.lock_token) from {_HELD}",
        _proofs(queue, locks),
        column,
    )


_HELD: Final = "unnest(%(session_ids)s::text[], %(lock_tokens)s::uuid[]) as held (session_id, lock_token)"


def _proofs(queue: str, locks: Sequence[SessionLock]) -> dict[str, Any]:
    return {
        "queue": queue_name(queue),
        "session_ids": [lock.session_id for lock in locks],
        "lock_tokens": [lock.lock_token for lock in locks],
    }
