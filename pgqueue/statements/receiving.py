"""Receiving and peeking: queries for rows of pgqueue.received_message, and how they are read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from pgqueue.model.arguments import queue_name
from pgqueue.model.columns import identifier
from pgqueue.model.names import is_dead_letter_queue
from pgqueue.model.row import COLUMNS, Row
from pgqueue.statements.statement import Statement, call, nothing, rows, scalar

#: The lock token as text: it is sent back with each settlement, and read as a UUID only where one is asked for.
RECEIVED_COLUMNS: Final = ", ".join(
    "lock_token::text" if name == "lock_token" else identifier(name) for name in COLUMNS
)

#: The time left on the lock: it takes long to read, and only receivers that lock messages ahead need it.
_LASTS: Final = "locked_until - pgqueue.clock()"

_LASTING_COLUMNS: Final = f"{RECEIVED_COLUMNS}, {_LASTS}"

PEEKED_COLUMNS: Final = f"{RECEIVED_COLUMNS}, null, scheduled_enqueue_time"

_DEATH: Final = "null, dead_letter_reason, dead_letter_error_description, dead_lettered_at"

_RECEIVED_LETTER_COLUMNS: Final = f"{_LASTING_COLUMNS}, {_DEATH}"

PEEKED_LETTER_COLUMNS: Final = f"{RECEIVED_COLUMNS}, null, {_DEATH}"


def receive(
    queue: str, *, max_messages: int, lock_duration: timedelta | None, locked_by: str, lasts: bool = False
) -> Statement[list[Row]]:
    """With ``lasts``, each row has the time left on its lock."""
    name = queue_name(queue)
    columns = _LASTING_COLUMNS if lasts else RECEIVED_COLUMNS
    if is_dead_letter_queue(name):
        columns = _RECEIVED_LETTER_COLUMNS
    return call(
        f"select {columns} from pgqueue.receive(…)",
        rows,
        {"queue": name},
        max_messages=max_messages,
        lock_duration=lock_duration,
        locked_by=locked_by,
    )


def receive_deferred(
    queue: str, sequence_numbers: Sequence[int], *, lock_duration: timedelta | None, locked_by: str
) -> Statement[list[Row]]:
    return call(
        f"select {RECEIVED_COLUMNS} from pgqueue.receive_deferred(…)",
        rows,
        queue=queue,
        sequence_numbers=sequence_numbers,
        lock_duration=lock_duration,
        locked_by=locked_by,
    )


def receive_and_delete(queue: str, *, max_messages: int) -> Statement[list[Row]]:
    return call(
        f"select {RECEIVED_COLUMNS} from pgqueue.receive_and_delete(…)", rows, queue=queue, max_messages=max_messages
    )


def clock() -> Statement[datetime]:
    """The time by the database's clock."""
    return call("select pgqueue.clock()", scalar)


def take_turn(queue: str) -> Statement[bool]:
    return call("select pgqueue.take_turn(…)", scalar, queue=queue)


def peek(queue: str, *, max_messages: int, from_sequence_number: int) -> Statement[list[Row]]:
    name = queue_name(queue)
    columns = PEEKED_LETTER_COLUMNS if is_dead_letter_queue(name) else PEEKED_COLUMNS
    return call(
        f"select {columns} from pgqueue.peek(…)",
        rows,
        {"queue": name},
        max_messages=max_messages,
        from_sequence_number=from_sequence_number,
    )


def explain_message(queue: str, sequence_number: int) -> Statement[str]:
    return call("select pgqueue.explain_message(…)", scalar, queue=queue, sequence_number=sequence_number)


def unlock(queue: str, sequence_number: int) -> Statement[None]:
    return call("select pgqueue.unlock(…)", nothing, queue=queue, sequence_number=sequence_number)
