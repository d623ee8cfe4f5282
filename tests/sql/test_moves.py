"""A message keeps its fields wherever it goes: to the dead letters and back, to a later time, to another queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pgqueue.testing import Database
from tests.fields import TEXT_VALUES
from tests.sql.stage import DEAD, LOCK_DURATION, SECOND, Received, Session, Stage

#: Without a session `partition_key` has a value of its own, so no two fields can take each other's place.
VALUES = TEXT_VALUES | {"partition_key": "the partition_key"}
del VALUES["session_id"]

COLUMNS = ", ".join(f'"{name}"' for name in VALUES)


def fields(session: Session, queue: str = "q") -> dict[str, Any]:
    """The fields of the next message of a queue."""
    ((*values,),) = session.rows(f"select {COLUMNS} from pgqueue.receive(%(queue)s)", queue=queue)
    return dict(zip(VALUES, values, strict=True))


def dead_lettered(stage: Stage, session: Session, message: Received) -> dict[str, Any]:
    session.settle("dead_letter", message, reason="Odd")
    return fields(session, DEAD)


def resubmitted(stage: Stage, session: Session, message: Received) -> dict[str, Any]:
    session.settle("dead_letter", message, reason="Odd")
    session.values("select pgqueue.resubmit('q')")
    return fields(session)


def postponed(stage: Stage, session: Session, message: Received) -> dict[str, Any]:
    session.settle("postpone", message, delay=SECOND)
    stage.passes(2 * SECOND)
    session.call("take_turn", queue="q")
    return fields(session)


def redelivered(stage: Stage, session: Session, message: Received) -> dict[str, Any]:
    stage.passes(LOCK_DURATION + SECOND)
    session.call("take_turn", queue="q")
    return fields(session)


def deferred(stage: Stage, session: Session, message: Received) -> dict[str, Any]:
    session.settle("defer", message)
    ((*values,),) = session.rows(
        f"select {COLUMNS} from pgqueue.receive_deferred('q', array[%(number)s])", number=message.sequence_number
    )
    return dict(zip(VALUES, values, strict=True))


def forwarded(stage: Stage, session: Session, message: Received) -> dict[str, Any]:
    session.call("create_queue", queue="target")
    session.abandon(message)
    session.call("alter_queue", queue="q", forward_to="target")
    stage.passes(SECOND)
    session.call("take_turn", queue="q")
    return fields(session, "target")


@pytest.mark.parametrize("move", [dead_lettered, resubmitted, postponed, redelivered, deferred, forwarded])
def test_a_message_keeps_its_fields(
    database: Database, move: Callable[[Stage, Session, Received], dict[str, Any]]
) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        arguments = ", ".join(f'"{name}" => %({name})s' for name in VALUES)
        ann.rows(f"select pgqueue.send('q', '1', {arguments})", **VALUES)
        (message,) = ann.receive()
        assert move(stage, ann, message) == VALUES
