"""Topics, their subscriptions, and the filters of these."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import InitVar, dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias, TypedDict

from pgqueue.errors import InvalidArgumentError
from pgqueue.model.json_text import JsonHolder, lazy_fields
from pgqueue.model.message import SequenceNumber
from pgqueue.model.settings import QueueProperties, QueueStatus
from pgqueue.model.sql_parameters import with_parameters


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

    ``parameters`` are written into the SQL as literals, in place of ``@name``: texts, numbers, truth values, UUIDs and
    datetimes.

    >>> SqlFilter("amount > @least and country in ('CH', 'DE')", {"least": 1000})
    SqlFilter(sql="amount > 1000 and country in ('CH', 'DE')")

    Raises:
        InvalidArgumentError: a parameter has no value, or one of another type.
    """

    sql: str
    parameters: InitVar[Mapping[str, Any] | None] = None

    def __post_init__(self, parameters: Mapping[str, Any] | None) -> None:
        if isinstance(self.sql, str):
            object.__setattr__(self, "sql", with_parameters(self.sql, parameters or {}))


#: Parts of a path that name the body, or may lead to it without its name.
READS_BODY = re.compile(r"\bbody\b|\.\s*\*|keyvalue|\\")

Filter: TypeAlias = CorrelationFilter | JsonPathFilter | SqlFilter


class TopicSettings(TypedDict, total=False):
    """The settings to give a topic: omitted ones have their defaults, or stay as they are.

    They apply to what is sent to the topic, before it is stored in subscriptions, which have settings of their own. In
    a new topic None means the default; in an existing one it removes an optional setting.
    """

    # generated lines: {all settings if is_of_topics: $declared_of_topics}
    status: QueueStatus | str | None
    """Whether the topic accepts sends: ACTIVE, DISABLED or SEND_DISABLED; by default ACTIVE."""
    user_metadata: Any
    """Any JSON value, for the application."""
    default_message_time_to_live: timedelta | None
    """How long until messages expire (``docs/expiry.md``)."""
    requires_duplicate_detection: bool | None
    """Whether a message id is stored only once (``docs/duplicates.md``); by default False."""
    duplicate_detection_history_time_window: timedelta | None
    """How long a message id is remembered, 20 s to 7 days; by default 10 minutes."""
    # end


@lazy_fields("user_metadata")
@dataclass(frozen=True, repr=False)
class TopicProperties(JsonHolder):
    """A topic, how many subscriptions it has, and its settings.

    With another ``status`` than ACTIVE nothing can be sent. A message expires after its own time to live, that of the
    topic or that of the subscription, whichever is shortest. With ``requires_duplicate_detection`` a message whose id
    was sent within ``duplicate_detection_history_time_window`` is stored in no subscription.
    """

    name: str
    subscriptions: int
    created_at: datetime
    # generated lines: {all settings if is_of_topics: $key: $kept}
    status: QueueStatus
    user_metadata: Any
    default_message_time_to_live: timedelta | None
    requires_duplicate_detection: bool
    duplicate_detection_history_time_window: timedelta
    # end

    @property
    def raw_user_metadata(self) -> str | None:
        """The user metadata as the database holds it: JSON as text, or None."""
        metadata: str | None = self._raw("user_metadata")
        return metadata

    def _title(self) -> str:
        return f"topic {self.name}"


class Published(int):
    """To how many subscriptions of a topic a message was sent, an ``int``.

    ``sequence_number`` is the number of a scheduled message in the topic, for ``Topic.cancel_scheduled``; None if the
    message can be received now.
    """

    sequence_number: SequenceNumber | None = None


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
