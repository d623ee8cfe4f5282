"""The settings of a queue: one row a setting, in the order of the arguments of ``pgqueue.create_queue``.

As with the fields of a message in ``columns``, all lists of settings are made from this table. A subscription is a
queue, and has no settings of its own. A new setting comes last.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

PYTHON: Final = {
    "bigint": "int",
    "boolean": "bool",
    "double precision": "float",
    "integer": "int",
    "interval": "timedelta",
    "jsonb": "Any",
    "text": "str",
}

REMOVALS: Final[dict[str, int | str | timedelta]] = {"0": 0, "interval '0'": timedelta(0), "''": ""}


@dataclass(frozen=True)
class Setting:
    """A setting of a queue: its column, the argument of verbs, and the attribute in Python."""

    name: str
    type: str
    """The type in SQL."""
    doc: str
    """For those who give it."""
    meaning: str
    """The comment on the column."""
    option: str
    """The help of its option on the command line."""
    kind: str = ""
    """The type in Python, where that does not follow from the type in SQL."""
    default: str = ""
    """The value of a new queue, in SQL; without it null."""
    none: str = ""
    """The value that removes the setting, in SQL, because null keeps it; without it there is always a value."""
    must_be: str = ""
    """The bounds, in words."""
    holds: str = ""
    """The bounds, in SQL."""
    panel: str | None = None
    """The panel of its option."""
    is_plain: bool = True
    """Whether the column has the value that is given."""
    is_alterable: bool = True
    """Whether it can be changed."""
    is_of_topics: bool = False
    """Whether a topic has it, too."""
    doc_of_topics: str = ""
    """For those who give it to a topic, where that differs."""

    @property
    def identifier(self) -> str:
        """The name in SQL."""
        return self.name

    @property
    def python(self) -> str:
        """The type in Python, None apart."""
        return self.kind or PYTHON[self.type]

    @property
    def removal(self) -> int | str | timedelta | None:
        """The value that removes the setting, in Python, where the database shall not read a null; or None."""
        return REMOVALS.get(self.none)


SETTINGS: Final = (
    Setting(
        "lock_duration",
        "interval",
        "How long a receive locks a message, 1 ms to 7 days; by default 60 s.",
        "For how long a message is locked when it is received.",
        "How long a receive locks a message, such as 30s or 5m.",
        default="interval '60 seconds'",
        must_be="from 1 millisecond to 7 days",
        holds="lock_duration between interval '1 millisecond' and interval '7 days'",
    ),
    Setting(
        "max_delivery_count",
        "integer",
        "The number of deliveries after which a message is dead-lettered; by default 10.",
        "How often a message of the queue is delivered before it becomes a dead letter.",
        "The number of deliveries after which a message is dead-lettered.",
        default="10",
        must_be="a positive whole number",
        holds="max_delivery_count > 0",
    ),
    Setting(
        "max_message_size",
        "bigint",
        "The maximum size of a message in bytes (``docs/limits.md``).",
        "How many bytes a message may have; null for any size.",
        "The maximum size of a body and its properties: bytes, 64kB, 1MB; none for no limit.",
        none="0",
        must_be="a positive whole number",
        holds="max_message_size > 0",
    ),
    Setting(
        "status",
        "text",
        "Whether the queue accepts sends and receives; by default ACTIVE.",
        "ACTIVE, SEND_DISABLED, RECEIVE_DISABLED or DISABLED.",
        "Whether the queue accepts sends and receives.",
        default="'ACTIVE'",
        kind="QueueStatus | str",
        must_be="ACTIVE, DISABLED, SEND_DISABLED or RECEIVE_DISABLED",
        holds="status in ('ACTIVE', 'DISABLED', 'SEND_DISABLED', 'RECEIVE_DISABLED')",
        is_of_topics=True,
        doc_of_topics="Whether the topic accepts sends: ACTIVE, DISABLED or SEND_DISABLED; by default ACTIVE.",
    ),
    Setting(
        "user_metadata",
        "jsonb",
        "Any JSON value, for the application.",
        "Text that users of the queue have stored with it.",
        "Any JSON value for the application; null for none.",
        none="'null'",
        is_of_topics=True,
    ),
    Setting(
        "default_message_time_to_live",
        "interval",
        "How long until messages expire (``docs/expiry.md``).",
        "When messages expire that are sent without a time to live; null for never.",
        "How long until messages expire, such as 2d, or sooner by their own; none for never.",
        none="interval '0'",
        must_be="positive and at most a hundred years",
        holds="default_message_time_to_live > interval '0' and default_message_time_to_live <= interval '36500 days'",
        panel="Expiry and duplicates",
        is_of_topics=True,
    ),
    Setting(
        "dead_lettering_on_message_expiration",
        "boolean",
        "Whether expired messages are dead-lettered; by default False.",
        "Whether expired messages become dead letters; otherwise they are dropped.",
        "Whether expired messages are dead-lettered or deleted.",
        default="false",
        panel="Expiry and duplicates",
    ),
    Setting(
        "requires_duplicate_detection",
        "boolean",
        "Whether a message id is stored only once (``docs/duplicates.md``); by default False.",
        "Whether a message is dropped whose id was sent before.",
        "Whether a message whose id was sent before is discarded.",
        default="false",
        panel="Expiry and duplicates",
        is_of_topics=True,
    ),
    Setting(
        "duplicate_detection_history_time_window",
        "interval",
        "How long a message id is remembered, 20 s to 7 days; by default 10 minutes.",
        "For how long message ids are recorded.",
        "How long a message id is remembered, from 20s to 7d; by default 10m.",
        default="interval '10 minutes'",
        must_be="from 20 seconds to 7 days",
        holds="duplicate_detection_history_time_window between interval '20 seconds' and interval '7 days'",
        panel="Expiry and duplicates",
        is_of_topics=True,
    ),
    Setting(
        "max_queue_length",
        "bigint",
        "The maximum number of messages, dead letters not counted (``docs/limits.md``).",
        "How many messages the queue may hold; null for any number.",
        "The maximum number of messages, without dead letters; none for no limit.",
        none="0",
        must_be="a positive whole number",
        holds="max_queue_length > 0",
    ),
    Setting(
        "retain_history",
        "interval",
        "How long the history of settled messages is kept, 1 minute to 60 days (``docs/history.md``).",
        "For how long settled messages are kept in the history; null for none.",
        "How long the history of settled messages is kept, up to 60d; none for no history.",
        none="interval '0'",
        must_be="from 1 minute to 60 days",
        holds="retain_history between interval '1 minute' and interval '60 days'",
    ),
    Setting(
        "retain_errors",
        "integer",
        "How many errors of failed deliveries each message keeps, 1 to 100; None keeps the last one only.",
        "How many errors of each message are kept; null for the last one only.",
        "How many errors of failed deliveries each message keeps, up to 100; none keeps the last one only.",
        none="0",
        must_be="from 1 to 100",
        holds="retain_errors between 1 and 100",
    ),
    Setting(
        "auto_delete_on_idle",
        "interval",
        "How long the queue may be idle before a sweep deletes it, 5 minutes or more (``docs/sweeper.md``).",
        "After how long without a send, a receive or a peek a sweep deletes the queue; null keeps it.",
        "After how long without a send, a receive or a peek a sweep deletes the queue, 5m or more; none for never.",
        none="interval '0'",
        must_be="from 5 minutes to a hundred years",
        holds="auto_delete_on_idle between interval '5 minutes' and interval '100 years'",
    ),
    Setting(
        "requires_session",
        "boolean",
        "Whether messages belong to sessions (``docs/sessions.md``); by default False. It cannot be changed.",
        "Whether the messages of the queue belong to sessions. See docs/sessions.md.",
        "Whether messages belong to sessions; set at creation only.",
        default="false",
        panel="Expiry and duplicates",
        is_alterable=False,
    ),
    Setting(
        "forward_to",
        "text",
        "The queue to which what is sent here goes instead (``docs/forwarding.md``).",
        "The queue to which messages of the queue are forwarded; null for none.",
        "The queue to which what is sent here goes instead; none for no forwarding.",
        none="''",
        panel="Forwarding",
        is_plain=False,
    ),
    Setting(
        "forward_dead_lettered_messages_to",
        "text",
        "The queue to which what dies here goes, instead of the dead letters (``docs/forwarding.md``).",
        "The queue to which dead letters of the queue are forwarded; null for none.",
        "The queue to which what dies here goes; none for the dead letters of this one.",
        none="''",
        panel="Forwarding",
        is_plain=False,
    ),
    Setting(
        "max_receive_rate",
        "double precision",
        "How many messages a second the queue hands out, 0.001 to 10,000 (``docs/flow.md``).",
        "How many messages a second the queue hands out; null for any number.",
        "How many messages a second the queue hands out, such as 100 or 0.5; none for any number.",
        none="0",
        must_be="from 0.001 to 10000 messages a second",
        holds="max_receive_rate between 0.001 and 10000",
    ),
    Setting(
        "max_concurrent",
        "integer",
        "How many messages the queue hands out at a time, 1 to 10,000 (``docs/flow.md``).",
        "How many messages the queue hands out at a time; null for any number.",
        "How many messages the queue hands out at a time; none for any number.",
        none="0",
        must_be="from 1 to 10000",
        holds="max_concurrent between 1 and 10000",
    ),
    Setting(
        "priority_ageing",
        "interval",
        "After how long a waiting message rises by one priority, 1 s to 30 days (``docs/flow.md``).",
        "After how long a waiting message rises by one priority; null for never.",
        "After how long a waiting message rises by one priority, such as 1m; none for never.",
        none="interval '0'",
        must_be="from 1 second to 30 days",
        holds="priority_ageing between interval '1 second' and interval '30 days'",
    ),
    Setting(
        "result_retention",
        "interval",
        "How long results of settled messages are kept, 1 minute to 60 days (``docs/results.md``).",
        "For how long outcomes of settled messages are kept, with their results; null for none.",
        "How long results of settled messages are kept, up to 60d; none for no results.",
        none="interval '0'",
        must_be="from 1 minute to 60 days",
        holds="result_retention between interval '1 minute' and interval '60 days'",
    ),
    Setting(
        "max_concurrent_per_group",
        "integer",
        "How many messages of each group the queue hands out at a time, 1 to 1,000 (``docs/groups.md``).",
        "How many messages of each group the queue hands out at a time; null for any number.",
        "How many messages of each group the queue hands out at a time; none for any number.",
        none="0",
        must_be="from 1 to 1000",
        holds="max_concurrent_per_group between 1 and 1000",
        panel="Groups",
    ),
    Setting(
        "max_receive_rate_per_group",
        "double precision",
        "How many messages of each group the queue hands out a second, 0.001 to 10,000 (``docs/groups.md``).",
        "How many messages of each group the queue hands out a second; null for any number.",
        "How many messages of each group the queue hands out a second, such as 10 or 0.5; none for any number.",
        none="0",
        must_be="from 0.001 to 10000 messages a second",
        holds="max_receive_rate_per_group between 0.001 and 10000",
        panel="Groups",
    ),
    Setting(
        "fair",
        "boolean",
        "Whether groups take turns (``docs/groups.md``); by default True if they have limits. It cannot be changed.",
        "Whether the messages of the queue belong to groups, which take turns. See docs/groups.md.",
        "Whether messages belong to groups, which take turns; set at creation only.",
        default="num_nonnulls(max_concurrent_per_group, max_receive_rate_per_group) > 0",
        panel="Groups",
        is_alterable=False,
    ),
)
