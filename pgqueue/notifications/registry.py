"""The mapping between notifications and message bodies, by explicit names and versions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from pgqueue.errors import InvalidArgumentError
from pgqueue.model.arguments import count, name_of, shown
from pgqueue.notifications.notification import (
    MEMORY,
    Memory,
    QueueNotification,
    attached_memory,
    checked_expiry,
    checked_time_to_live,
)

T = TypeVar("T", bound=QueueNotification)

#: The view pgqueue.notifications selects messages by this content type.
CONTENT_TYPE = "application/vnd.pgqueue.notification+json"

Data = dict[str, Any]
Upgrade = Callable[[Data], Data]


@dataclass(frozen=True)
class Kind:
    """A type of notification: its name and version in message bodies, and the conversions from and to data."""

    name: str
    version: int
    to_data: Callable[[Any], Data]
    from_data: Callable[[Data], QueueNotification]
    upgrades: dict[int, Upgrade] = field(default_factory=dict)

    def upgraded(self, data: Data, version: int) -> Data | None:
        """Return data of an older version as data of this one; None if an upgrade is missing."""
        for older in range(version, self.version):
            if older not in self.upgrades:
                return None
            data = self.upgrades[older](data)
        return data


class NotificationTypes:
    """The types of notifications that go through a queue, each under a name and a version.

    A dataclass is mapped by its fields, a pydantic model by ``model_dump`` and ``model_validate``. Any other class
    needs a method ``to_body()`` and a class method ``from_body(data)``.
    """

    def __init__(self) -> None:
        self._by_name: dict[str, Kind] = {}
        self._by_type: dict[type, Kind] = {}

    def register(self, name: str, *, version: int = 1) -> Callable[[type[T]], type[T]]:
        """Returns a class decorator that registers the class under this name and version.

        Raises:
            InvalidArgumentError: the name is taken, the version is less than 1, or the class is no QueueNotification,
                cannot be mapped, or has a field with a name that every QueueNotification has.
        """
        name_of("notification", name)
        count("the version of a notification", version)

        def add(kind: type[T]) -> type[T]:
            if name in self._by_name:
                raise InvalidArgumentError(f"a notification {name!r} is registered already")
            mapping = _mapping(kind)
            _check_fields(kind)
            self._by_name[name] = self._by_type[kind] = Kind(name, version, *mapping)
            return kind

        return add

    def upgrade(self, name: str, *, from_version: int) -> Callable[[Upgrade], Upgrade]:
        """Returns a decorator for the function that converts data of ``from_version`` to the next version.

        Raises:
            InvalidArgumentError: the name is not registered with a higher version.
        """
        count("from_version", from_version)
        kind = self._by_name.get(name_of("notification", name))
        if kind is None or from_version >= kind.version:
            raise InvalidArgumentError(f"no notification {name!r} is registered with a version above {from_version}")

        def add(upgrade: Upgrade) -> Upgrade:
            kind.upgrades[from_version] = upgrade
            return upgrade

        return add

    def knows(self, notification: object) -> bool:
        """Whether the type of this notification is registered."""
        return type(notification) in self._by_type

    def to_body(self, notification: QueueNotification) -> dict[str, Any]:
        """Returns the message body of a notification, with its memory.

        Raises:
            InvalidArgumentError: its type is not registered.
        """
        kind = self._by_type.get(type(notification))
        if kind is None:
            raise InvalidArgumentError(
                f"{type(notification).__name__} is not registered: write @types.register(name) before its class"
            )
        body = {"notification": kind.name, "version": kind.version, "data": kind.to_data(notification)}
        return remembering(body, attached_memory(notification))

    def from_body(self, body: Any) -> QueueNotification | None:
        """Returns the notification of a message body; None if its name or version is not registered here.

        Raises whatever the type's own mapping raises for data that do not fit.
        """
        name = body.get("notification") if isinstance(body, dict) else None
        kind = self._by_name.get(name) if isinstance(name, str) else None
        version = None if kind is None else body.get("version")
        if kind is None or not isinstance(version, int) or not 0 < version <= kind.version:
            return None
        data = kind.upgraded(body.get("data"), version)
        if data is None:
            return None
        notification = kind.from_data(data)
        notification.__dict__[MEMORY] = memory_of(body)
        return notification


def memory_of(body: Any, *, otherwise: timedelta | None = None) -> Memory:
    """Return the memory in a body of any type; ``otherwise`` is the time to live if the body has none.

    Raises ValueError for a body that pgqueue has not written.
    """
    given = {"time_to_live": None if otherwise is None else otherwise.total_seconds()}
    given.update(body if isinstance(body, dict) else {})
    try:
        return _memory(given)
    except (TypeError, ValueError, OverflowError, InvalidArgumentError) as error:
        raise ValueError(f"this is no memory of a notification: {error}") from error


def _memory(given: Data) -> Memory:
    expires_at, seconds = given.get("expires_at"), given.get("time_to_live")
    return Memory(
        expires_at=None if expires_at is None else checked_expiry(datetime.fromisoformat(expires_at)),
        time_to_live=None if seconds is None else checked_time_to_live(timedelta(seconds=seconds)),
        complete=bool(given.get("complete")),
        state=given.get("state"),
        attempts=int(given.get("attempts", 0)),
        timed_out=bool(given.get("timed_out")),
        forwarded=list(given.get("forwarded", ())),
    )


def remembering(body: Data, memory: Memory) -> Data:
    """Return the same body with this memory."""
    return {
        **body,
        "expires_at": None if memory.expires_at is None else memory.expires_at.isoformat(),
        "time_to_live": None if memory.time_to_live is None else memory.time_to_live.total_seconds(),
        "complete": memory.complete,
        "state": memory.state,
        "attempts": memory.attempts,
        "timed_out": memory.timed_out,
        "forwarded": memory.forwarded,
    }


def _check_fields(kind: type[Any]) -> None:
    """Refuse a field that would hide an attribute of every notification, or get its property as the default."""
    own = {name for name, value in vars(QueueNotification).items() if isinstance(value, property)}
    hidden = sorted(own.intersection(kind.__annotations__) - {"is_ready_to_send"})
    if hidden:
        raise InvalidArgumentError(
            f"{kind.__name__} has a field {hidden[0]!r}, which every QueueNotification has: name it otherwise"
        )


def _mapping(kind: Any) -> tuple[Callable[[Any], Data], Callable[[Data], Any]]:
    """How instances of a class become JSON, and are read back."""
    if isinstance(kind, type) and issubclass(kind, QueueNotification):
        if hasattr(kind, "to_body") and hasattr(kind, "from_body"):
            return kind.to_body, kind.from_body
        if hasattr(kind, "model_dump") and hasattr(kind, "model_validate"):
            return (lambda model: model.model_dump(mode="json")), kind.model_validate
        if dataclasses.is_dataclass(kind):
            return dataclasses.asdict, lambda data: kind(**data)
    raise InvalidArgumentError(
        f"{kind.__name__ if isinstance(kind, type) else shown(kind)} must be a QueueNotification that is a dataclass, a"
        " pydantic model, or has to_body() and from_body()"
    )
