"""Queues: create, alter, inspect, drop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final, LiteralString, TypeVar

from pgqueue.errors import InvalidArgumentError
from pgqueue.model.encoding import to_json
from pgqueue.model.json_text import json_text
from pgqueue.model.names import is_dead_letter_queue
from pgqueue.model.queue_settings import SETTINGS as TABLE
from pgqueue.model.row import Row
from pgqueue.model.settings import (
    Depth,
    QueueProperties,
    QueueRuntimeProperties,
    QueueSettings,
    QueueStatus,
)
from pgqueue.statements.arguments import duration, flag, queue_name, real, text, whole
from pgqueue.statements.statement import NO_LIMIT, Statement, nothing, scalar

T = TypeVar("T")

#: Those that a queue is created with once come last, as in the rows.
SETTINGS: Final = ", ".join(
    (
        "name",
        *(setting.name for setting in TABLE if setting.is_alterable),
        *("paused_at", "created_at", "updated_at"),
        *(setting.name for setting in TABLE if not setting.is_alterable),
    )
)

COUNTS: Final = (
    "counts.name, ready, locked, deferred, expired, scheduled, dead_letters, oldest_enqueued_time, exhausted,"
    " size_in_bytes"
)

COUNTS_OF_ONE: Final = "pgqueue.queue_counts(%(name)s::text) as counts"

SETTING_VALUES: Final = ", ".join(f"{setting.name} => %({setting.name})s::{setting.type}" for setting in TABLE)

CHECKS: Final[dict[str, Callable[[str, Any], Any]]] = {
    "boolean": flag,
    "integer": whole,
    "bigint": partial(whole, bits=64),
    "double precision": real,
    "interval": duration,
    "text": text,
}

KINDS: Final = {setting.name: CHECKS[setting.type] for setting in TABLE if setting.type in CHECKS}
"""The type of each setting. The metadata may be anything."""

UNSET: Final[dict[str, Any]] = {setting.name: setting.removal for setting in TABLE if setting.removal is not None}
"""The values that unset a setting, where null keeps it as it is."""


def create_queue(name: str, settings: QueueSettings) -> Statement[None]:
    return Statement(
        f"select pgqueue.create_queue(%(name)s::text, {SETTING_VALUES})",
        {"name": queue_name(name), **new_settings(settings)},
        nothing,
    )


def new_settings(settings: QueueSettings) -> dict[str, Any]:
    """The parameters of SETTING_VALUES for a new queue."""
    return {**_checked(settings), "user_metadata": _metadata(settings)}


def alter_queue(name: str, settings: QueueSettings) -> Statement[None]:
    return Statement(
        f"select pgqueue.alter_queue(%(name)s::text, {SETTING_VALUES})",
        {"name": queue_name(name), **altered_settings(settings)},
        nothing,
    )


def pause_queue(name: str) -> Statement[None]:
    return Statement("select pgqueue.pause_queue(%(name)s::text)", {"name": queue_name(name)}, nothing)


def resume_queue(name: str) -> Statement[None]:
    return Statement("select pgqueue.resume_queue(%(name)s::text)", {"name": queue_name(name)}, nothing)


def altered_settings(settings: QueueSettings) -> dict[str, Any]:
    """The parameters of SETTING_VALUES for an existing queue."""
    return {
        **_checked({setting: _altered(setting, value) for setting, value in settings.items()}),
        "user_metadata": "null" if settings.get("user_metadata", ...) is None else _metadata(settings),
    }


def drop_queue(name: str) -> Statement[None]:
    return Statement("select pgqueue.drop_queue(%(name)s::text)", {"name": queue_name(name)}, nothing, NO_LIMIT)


def purge_queue(name: str, *, max_messages: int) -> Statement[int]:
    return Statement(
        "select pgqueue.purge_queue(%(name)s::text, %(max_messages)s::integer)",
        {"name": queue_name(name), "max_messages": max_messages},
        scalar,
    )


def get_queue(name: str) -> Statement[QueueProperties]:
    return _of_one("select " + SETTINGS + " from pgqueue.queue_settings(%(name)s::text)", name, properties)


def list_queues() -> Statement[list[QueueProperties]]:
    return Statement("select " + SETTINGS + " from pgqueue.queue_settings()", {}, _read_properties)


def get_queue_runtime_properties(name: str) -> Statement[QueueRuntimeProperties]:
    return _of_one(f"select {COUNTS} from {COUNTS_OF_ONE}", name, QueueRuntimeProperties)


def list_queues_runtime_properties(*, exact: bool) -> Statement[list[QueueRuntimeProperties]]:
    columns, function = (COUNTS, "queue_counts") if flag("exact", exact) else (f"{COUNTS}, is_exact", "queue_estimates")
    limit = NO_LIMIT if exact else None
    sql = f"select {columns} from pgqueue.{function}() as counts order by counts.name"
    return Statement(sql, {}, _read_counts, limit)


def depth(name: str) -> Statement[Depth]:
    return _of_one(
        f"""select ready, locked, scheduled, dead_letters,
                   coalesce(extract(epoch from pgqueue.clock() - oldest_enqueued_time), 0)::float8,
                   num_nonnulls(paused_at)
              from {COUNTS_OF_ONE}
             cross join pgqueue.queue_settings(%(name)s::text) as settings""",
        name,
        Depth,
    )


def _read_counts(rows: Sequence[Row]) -> list[QueueRuntimeProperties]:
    return [QueueRuntimeProperties(*row) for row in rows]


def _read_properties(rows: Sequence[Row]) -> list[QueueProperties]:
    return [properties(*row) for row in rows]


def properties(name: str, lock_duration: timedelta, *rest: Any) -> QueueProperties:
    max_delivery_count, max_message_size, status, metadata, *others = rest
    bounds = (max_delivery_count, max_message_size)
    return QueueProperties(name, lock_duration, *bounds, QueueStatus(status), json_text(metadata), *others)


def _of_one(sql: LiteralString, name: str, kind: Callable[..., T]) -> Statement[T]:
    if is_dead_letter_queue(name):
        raise InvalidArgumentError(f"dead letters have no settings of their own: name their queue, not {name!r}")
    return Statement(sql, {"name": queue_name(name)}, lambda rows: kind(*rows[0]))


def _altered(setting: str, value: Any) -> Any:
    """The arguments of alter_queue: None becomes the value that removes a setting, because null keeps it."""
    if value is None and setting not in (*UNSET, "user_metadata"):
        raise InvalidArgumentError(f"{setting} cannot be None: leave it out to keep it as it is")
    if value is not None and setting in UNSET and value == UNSET[setting]:
        must_be = "the name of a queue" if value == "" else "positive"
        raise InvalidArgumentError(f"{setting} must be {must_be}, or None for none at all")
    return UNSET.get(setting) if value is None else value


def _metadata(settings: QueueSettings) -> str | None:
    user_metadata = settings.get("user_metadata")
    return None if user_metadata is None else to_json("user_metadata", user_metadata, InvalidArgumentError)


def _checked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings by name, each checked for its type; None for those not given."""
    if unknown := settings.keys() - QueueSettings.__annotations__.keys():
        raise TypeError(f"no setting of a queue is called {', '.join(sorted(unknown))}")
    return {setting: check(setting, settings.get(setting)) for setting, check in KINDS.items()}
