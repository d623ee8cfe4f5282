"""Topics, their subscriptions, and the filters of these."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from pgqueue.errors import InvalidArgumentError
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

    def check_encrypted(self) -> None:
        """Refuse a condition on bodies that are encrypted, which would never be true.

        Raises:
            InvalidArgumentError: it may read the body.
        """
        if READS_BODY.search(self.path):
            raise InvalidArgumentError(
                f"the path {self.path!r} reads the body, which is encrypted: filter by subject or by a property"
            )


@dataclass(frozen=True)
class SqlFilter:
    """Matches messages for which a condition in the SQL of Service Bus is true. Needs the extra ``sql-filter``.

    It compares application properties, by their names, and the fields of a :class:`CorrelationFilter`, as in
    ``sys.subject``. A comparison with a property that the message does not have is neither true nor false. A client
    translates the filter to the path of a :class:`JsonPathFilter` and stores both; see ``docs/topics.md``.

    >>> SqlFilter("amount > 1000 and country in ('CH', 'DE') and sys.subject like 'pay%'")
    SqlFilter(sql="amount > 1000 and country in ('CH', 'DE') and sys.subject like 'pay%'")
    """

    sql: str


#: Parts of a path that name the body, or may lead to it without its name.
READS_BODY = re.compile(r"\bbody\b|\.\s*\*|keyvalue|\\")

Filter: TypeAlias = CorrelationFilter | JsonPathFilter | SqlFilter


@dataclass(frozen=True)
class TopicProperties:
    """A topic, and how many subscriptions it has."""

    name: str
    subscriptions: int
    created_at: datetime


@dataclass(frozen=True)
class SubscriptionProperties:
    """A subscription of a topic: which messages it gets, what is set in them, and the settings of its queue.

    A subscription is created with the rule ``$Default``, whose ``filter`` and ``set_properties`` these are: without a
    filter it gets every message. ``rules`` is how many rules it has. Both are None, too, if that rule was deleted.
    """

    topic: str
    name: str
    filter: Filter | None
    set_properties: dict[str, Any] | None
    created_at: datetime
    queue: QueueProperties
    rules: int


@dataclass(frozen=True)
class RuleProperties:
    """A rule of a subscription: which messages of the topic are stored there, and what is set in them.

    Without a ``filter`` every message matches. ``set_properties`` are merged into the application properties.
    """

    name: str
    filter: Filter | None
    set_properties: dict[str, Any] | None
    created_at: datetime
