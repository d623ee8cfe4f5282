"""Named sessions of the database that accept sessions of messages: what their tests share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.sql.stage import INVALID_ARGUMENT, Received, Session, Stage, must_not_wait

SESSION_LOST, SESSION_HELD = "PQ020", "PQ021"


@dataclass(frozen=True)
class Accepted:
    """The result of accept_session."""

    session_id: str
    lock_token: UUID
    locked_until: datetime
    state: Any
    binary_state: bytes | None


def stage_of(database: Database, **settings: Any) -> Stage:
    return Stage(database, requires_session=True, **settings)


def accept(session: Session, session_id: str | None = None, **options: Any) -> Accepted | None:
    found = accept_several(session, session_id=session_id, **options)
    return found[0] if found else None


def accept_several(session: Session, **arguments: Any) -> list[Accepted]:
    with must_not_wait(), session.connection.cursor(row_factory=class_row(Accepted)) as cursor:
        named = ", ".join(f"{name} => %({name})s" for name in arguments)
        statement = f"select * from pgqueue.accept_session('q', {named})"
        return cursor.execute(statement.encode(), arguments).fetchall()


def accepted(session: Session, session_id: str | None = None, **options: Any) -> Accepted:
    held = accept(session, session_id, **options)
    assert held is not None
    return held


def received(session: Session, held: Accepted, max_messages: int = 1) -> list[Received]:
    return session._receive(
        "receive_from_session",
        {"queue": "q", "session_id": held.session_id, "lock_token": held.lock_token, "max_messages": max_messages},
    )


def bodies(session: Session, held: Accepted, max_messages: int = 99) -> list[Any]:
    return [message.body for message in received(session, held, max_messages)]


def release(session: Session, held: Accepted) -> bool:
    return bool(session.call("release_session", queue="q", session_id=held.session_id, lock_token=held.lock_token))


def renew(session: Session, held: Accepted, **options: Any) -> datetime:
    arguments = {"queue": "q", "session_id": held.session_id, "lock_token": held.lock_token, **options}
    until: datetime = session.call("renew_session_lock", **arguments)
    return until


def set_state(session: Session, held: Accepted, state: Any) -> None:
    arguments = {"session_id": held.session_id, "lock_token": held.lock_token, "state": Jsonb(state)}
    session.call("set_session_state", queue="q", **arguments)


def state(session: Session, session_id: str) -> Any:
    ((json, binary),) = session.table("get_session_state", queue="q", session_id=session_id)
    return json if binary is None else binary


def waiting(session: Session) -> list[str]:
    return session.values("select session_id from pgqueue.waiting_session order by available_at, session_id")


@contextmanager
def said(why: str) -> Iterator[None]:
    """The block must be refused because of an argument, with these words."""
    with pytest.raises(psycopg.Error, match=why) as refusal:
        yield
    assert refusal.value.sqlstate == INVALID_ARGUMENT


@contextmanager
def opened(session: Session, isolation: str = "read committed") -> Iterator[None]:
    """A transaction of this session, which is committed at the end."""
    session.begin(isolation)
    yield
    session.commit()
