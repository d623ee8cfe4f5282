"""Topics, their subscriptions, and the filters of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from pgqueue.model.settings import QueueProperties


@dataclass(frozen=True)
class CorrelationFilter:
    """Matches messages that have all of these values; those that are None are not compared.

    ``application_properties`` are compared as JSON: 1 equals 1.0, and not "1". The message may have others besides. A
    topic finds the filters that match a message by an index, however many subscriptions it has.
    """

    # generated lines: {all if is_filterable: $key: $optional = $unset}
    message_id: str | None = None
    correlation_id: str | None = None
    subject: str | None = None
    content_type: str | None = None
    reply_to: str | None = None
    session_id: str | None = None
    reply_to_session_id: str | None = None
    to: str | None = None
    # end
    application_properties: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class JsonPathFilter:
    """Matches messages for which a condition in the path language of SQL/JSON is true.

    The message is an object with ``body``, unless that is bytes, ``application_properties``, and the fields of
    :class:`CorrelationFilter` that it has. The database evaluates the condition, once for each message and
    subscription. A message on which it fails does not match.

    >>> JsonPathFilter('$.body.amount > 1000 && $.subject == "paid"')
    JsonPathFilter(path='$.body.amount > 1000 && $.subject == "paid"')
    """

    path: str


Filter: TypeAlias = CorrelationFilter | JsonPathFilter


@dataclass(frozen=True)
class TopicProperties:
    """A topic, and how many subscriptions it has."""

    name: str
    subscriptions: int
    created_at: datetime


@dataclass(frozen=True)
class SubscriptionProperties:
    """A subscription of a topic: which messages it gets, what is set in them, and the settings of its queue.

    Without a ``filter`` it gets every message. ``set_properties`` are merged into the application properties of what is
    stored in the subscription.
    """

    topic: str
    name: str
    filter: Filter | None
    set_properties: dict[str, Any] | None
    created_at: datetime
    queue: QueueProperties
