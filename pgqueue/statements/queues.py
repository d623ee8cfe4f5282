"""Queues: create, alter, look at, drop."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final, TypeVar

from pgqueue.errors import InvalidArgumentError, QueueNotFoundError
from pgqueue.model.encoding import to_json
from pgqueue.model.settings import (
    UNSET,
    Depth,
    QueueProperties,
    QueueRuntimeProperties,
    QueueStatus,
    Unset,
)
from pgqueue.statements.arguments import duration, queue_name, text, whole
from pgqueue.statements.statement import Row, Statement, nothing, scalar

T = TypeVar("T")

SETTINGS: Final = """name, lock_duration, max_delivery_count, max_message_size, status, user_metadata,
       created_at, updated_at"""


def create_queue(
    name: str,
    *,
    lock_duration: timedelta | None,
    max_delivery_count: int | None,
    max_message_size: int | None,
    status: QueueStatus | str | None,
    user_metadata: Any,
) -> Statement[None]:
    return Statement(
        """select pgqueue.create_queue(
               %(name)s::text, %(lock_duration)s::interval, %(max_delivery_count)s::integer,
               %(max_message_size)s::bigint, %(status)s::text, %(user_metadata)s::jsonb)""",
        {
            "name": queue_name(name),
            "lock_duration": duration("lock_duration", lock_duration),
            "max_delivery_count": whole("max_delivery_count", max_delivery_count),
            "max_message_size": whole("max_message_size", max_message_size, bits=64),
            "status": text("status", status),
            "user_metadata": None if user_metadata is None else to_json("user_metadata", user_metadata),
        },
        nothing,
    )


def alter_queue(
    name: str,
    *,
    lock_duration: timedelta | Unset,
    max_delivery_count: int | Unset,
    max_message_size: int | Unset | None,
    status: QueueStatus | str | Unset,
    user_metadata: Any,
) -> Statement[None]:
    """A setting that is UNSET stays as it is; None takes a bound or the metadata away."""
    return Statement(
        """select pgqueue.alter_queue(
               %(name)s::text, %(lock_duration)s::interval, %(max_delivery_count)s::integer,
               %(max_message_size)s::bigint, %(status)s::text, %(user_metadata)s::jsonb)""",
        {
            "name": queue_name(name),
            "lock_duration": duration("lock_duration", _given("lock_duration", lock_duration)),
            "max_delivery_count": whole("max_delivery_count", _given("max_delivery_count", max_delivery_count)),
            "max_message_size": None if isinstance(max_message_size, Unset) else _bound(max_message_size),
            "status": text("status", _given("status", status)),
            "user_metadata": None if user_metadata is UNSET else to_json("user_metadata", user_metadata),
        },
        nothing,
    )


def drop_queue(name: str) -> Statement[None]:
    return Statement("select pgqueue.drop_queue(%(name)s::text)", {"name": queue_name(name)}, nothing)


def purge_queue(name: str, *, max_messages: int) -> Statement[int]:
    return Statement(
        "select pgqueue.purge_queue(%(name)s::text, %(max_messages)s::integer)",
        {"name": queue_name(name), "max_messages": max_messages},
        scalar,
    )


def get_queue(name: str) -> Statement[QueueProperties]:
    def read(rows: Sequence[Row]) -> QueueProperties:
        return _only(name, _read_properties(rows))

    return Statement(
        "select " + SETTINGS + " from pgqueue.queue where name = %(name)s::text", {"name": queue_name(name)}, read
    )


def list_queues() -> Statement[list[QueueProperties]]:
    return Statement("select " + SETTINGS + " from pgqueue.queue order by name", {}, _read_properties)


def get_queue_runtime_properties(name: str) -> Statement[QueueRuntimeProperties]:
    def read(rows: Sequence[Row]) -> QueueRuntimeProperties:
        return _only(name, [QueueRuntimeProperties(*row) for row in rows])

    return Statement(
        """select name, ready, locked, scheduled, dead_letters, oldest_enqueued_time
             from pgqueue.queues where name = %(name)s::text""",
        {"name": queue_name(name)},
        read,
    )


def depth(name: str) -> Statement[Depth]:
    def read(rows: Sequence[Row]) -> Depth:
        return _only(name, [Depth(*row) for row in rows])

    return Statement(
        """select ready, locked, scheduled, dead_letters, coalesce(extract(epoch from oldest_age), 0)::float8
             from pgqueue.queues where name = %(name)s::text""",
        {"name": queue_name(name)},
        read,
    )


def _read_properties(rows: Sequence[Row]) -> list[QueueProperties]:
    return [_properties(*row) for row in rows]


def _properties(name: str, lock_duration: timedelta, *rest: Any) -> QueueProperties:
    max_delivery_count, max_message_size, status, *others = rest
    return QueueProperties(name, lock_duration, max_delivery_count, max_message_size, QueueStatus(status), *others)


def _only(name: str, found: Sequence[T]) -> T:
    if not found:
        raise QueueNotFoundError(f"queue {name!r} does not exist: create it with client.create_queue({name!r})")
    return found[0]


def _given(setting: str, value: Any) -> Any:
    """What was given, or None for what was not."""
    if value is None:
        raise InvalidArgumentError(f"{setting} cannot be None: leave it out to keep it as it is")
    return None if isinstance(value, Unset) else value


def _bound(value: int | None) -> int:
    """No bound is written as 0, because null keeps the bound as it is."""
    if value == 0:
        raise InvalidArgumentError("max_message_size must be positive, or None for no bound")
    return whole("max_message_size", value, bits=64) or 0
