"""Queues: create, alter, inspect, drop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, LiteralString, TypeVar

from pgqueue.errors import InvalidArgumentError
from pgqueue.model.arguments import check_of, flag, queue_name
from pgqueue.model.encoding import to_json
from pgqueue.model.json_text import undecoded
from pgqueue.model.names import is_dead_letter_queue
from pgqueue.model.queue_settings import SETTINGS as TABLE
from pgqueue.model.row import Row
from pgqueue.model.settings import (
    Depth,
    GroupLimits,
    QueueProperties,
    QueueRuntimeProperties,
    QueueSettings,
    QueueStatus,
)
from pgqueue.model.topic import TopicSettings
from pgqueue.statements.statement import NO_LIMIT, Statement, call, columns_of, each, nothing, scalar

T = TypeVar("T")

SETTINGS: Final = columns_of(QueueProperties)

ESTIMATES: Final = columns_of(QueueRuntimeProperties)

COUNTS: Final = ESTIMATES.removesuffix(", is_exact")

FORWARDING: Final = """
select name, pg_catalog.quote_ident(name), forward_to, forward_dead_lettered_messages_to
  from pgqueue.queue_settings()"""

UNSET: Final[dict[str, Any]] = {setting.name: setting.removal for setting in TABLE if setting.removal is not None}
"""The values that unset a setting, where null keeps it as it is."""


def create_queue(name: str, settings: QueueSettings) -> Statement[None]:
    return call("select pgqueue.create_queue(…)", nothing, new_settings(settings), queue=name)


def new_settings(settings: QueueSettings | TopicSettings, owner: str = "queue") -> dict[str, Any]:
    """The arguments of a verb that creates a queue, or a topic."""
    return {**_checked(settings, owner), "user_metadata": _metadata(settings)}


def alter_queue(name: str, settings: QueueSettings) -> Statement[None]:
    return call("select pgqueue.alter_queue(…)", nothing, altered_settings(settings), queue=name)


def altered_settings(settings: QueueSettings | TopicSettings, owner: str = "queue") -> dict[str, Any]:
    """The arguments of a verb that alters a queue, or a topic."""
    return {
        **_checked({setting: _altered(setting, value) for setting, value in settings.items()}, owner),
        "user_metadata": "null" if settings.get("user_metadata", ...) is None else _metadata(settings),
    }


def pause_queue(name: str) -> Statement[None]:
    return call("select pgqueue.pause_queue(…)", nothing, queue=name)


def resume_queue(name: str) -> Statement[None]:
    return call("select pgqueue.resume_queue(…)", nothing, queue=name)


def set_group_limits(queue: str, group_id: str, limits: GroupLimits) -> Statement[None]:
    if unknown := limits.keys() - GroupLimits.__annotations__.keys():
        raise TypeError(f"no limit of a group is called {', '.join(sorted(unknown))}")
    for limit, value in limits.items():
        if value == 0:
            raise InvalidArgumentError(f"{limit} must be positive, or None for none at all")
    given: dict[str, Any] = {limit: 0 if value is None else value for limit, value in limits.items()}
    return call("select pgqueue.set_group_limits(…)", nothing, queue=queue, group_id=group_id, **given)


def drop_queue(name: str) -> Statement[None]:
    return call("select pgqueue.drop_queue(…)", nothing, queue=name).within(NO_LIMIT)


def check_droppable(names: Sequence[str]) -> Statement[None]:
    """Refuse queues that others forward to, as pgqueue.drop_queue and pgqueue.drop_topic do."""

    def read(rows: Sequence[Row]) -> None:
        quoted = {name: quoted for name, quoted, *_ in rows}
        for target in names:
            sources = [quoted[name] for name, _, *targets in rows if target in targets and name not in names]
            if sources and target in quoted:
                raise InvalidArgumentError(
                    f"queue {quoted[target]} cannot be dropped: others forward to it: {', '.join(sources)}. Set their"
                    " forward_to or forward_dead_lettered_messages_to to another queue or to None with"
                    " client.update_queue."
                )

    return Statement(FORWARDING, {}, read)


def purge_queue(name: str, *, max_messages: int) -> Statement[int]:
    return call("select pgqueue.purge_queue(…)", scalar, queue=name, max_messages=max_messages)


def get_queue(name: str) -> Statement[QueueProperties]:
    return _of_one(f"select {SETTINGS} from pgqueue.queue_settings(…)", name, properties)


def list_queues() -> Statement[list[QueueProperties]]:
    return Statement(f"select {SETTINGS} from pgqueue.queue_settings()", {}, each(properties))


def get_queue_runtime_properties(name: str) -> Statement[QueueRuntimeProperties]:
    return _of_one(f"select {COUNTS} from pgqueue.queue_counts(…)", name, QueueRuntimeProperties)


def list_queues_runtime_properties(*, exact: bool) -> Statement[list[QueueRuntimeProperties]]:
    if flag("exact", exact):
        sql, limit = f"select {COUNTS} from pgqueue.queue_counts() order by name", NO_LIMIT
    else:
        sql, limit = f"select {ESTIMATES} from pgqueue.queue_estimates() order by name", None
    return Statement(sql, {}, each(QueueRuntimeProperties), limit)


def depth(name: str) -> Statement[Depth]:
    return _of_one(
        """select ready, locked, scheduled, dead_letters,
                  coalesce(extract(epoch from pgqueue.clock() - oldest_enqueued_time), 0)::float8,
                  num_nonnulls(paused_at)
             from pgqueue.queue_counts(…)
            cross join pgqueue.queue_settings(…) as settings""",
        name,
        Depth,
    )


def properties(*row: Any) -> QueueProperties:
    values = dict(zip(SETTINGS.split(", "), row, strict=True))
    return undecoded(QueueProperties(**{**values, "status": QueueStatus(values["status"])}), "user_metadata")


def _of_one(sql: LiteralString, name: str, kind: Callable[..., T]) -> Statement[T]:
    if is_dead_letter_queue(queue_name(name)):
        raise InvalidArgumentError(f"dead letters have no settings of their own: name their queue, not {name!r}")
    return call(sql, lambda rows: kind(*rows[0]), queue=name)


def _altered(setting: str, value: Any) -> Any:
    """The arguments of alter_queue: None becomes the value that removes a setting, because null keeps it."""
    if value is None and setting not in (*UNSET, "user_metadata"):
        raise InvalidArgumentError(f"{setting} cannot be None: leave it out to keep it as it is")
    if value is not None and setting in UNSET and value == UNSET[setting]:
        must_be = "the name of a queue" if value == "" else "positive"
        raise InvalidArgumentError(f"{setting} must be {must_be}, or None for none at all")
    return UNSET.get(setting) if value is None else value


def _metadata(settings: QueueSettings | TopicSettings) -> str | None:
    user_metadata = settings.get("user_metadata")
    return None if user_metadata is None else to_json("user_metadata", user_metadata, InvalidArgumentError)


def _checked(settings: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """The settings by name, each checked for its type; None for those not given. The metadata may be anything."""
    known = {each.name: each for each in TABLE if owner == "queue" or each.is_of_topics}
    if unknown := settings.keys() - known.keys():
        raise TypeError(f"no setting of a {owner} is called {', '.join(sorted(unknown))}")
    return {name: check_of(name, each.type)(name, settings.get(name)) for name, each in known.items()}
