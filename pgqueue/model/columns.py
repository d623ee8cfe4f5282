"""The fields of a message: one row a field, in the order of the arguments of ``pgqueue.send``.

All lists of the fields of a message are made from this table: at import in Python, by ``make generate`` in SQL, in the
classes that type checkers read, and in pages. A new field comes last: positions are promised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: The names that SQL reserves for itself.
RESERVED: Final = frozenset({"to"})


def identifier(name: str) -> str:
    """The name of a column as SQL has it."""
    return f'"{name}"' if name in RESERVED else name


@dataclass(frozen=True)
class Column:
    """A field of a message: its column in SQL, the argument of verbs, and the attribute in Python."""

    name: str
    type: str
    """The type in SQL."""
    python: str
    """The type of the attribute, None apart."""
    meaning: str
    """The comment on the column."""
    option: str = ""
    """The help of its option on the command line, where an option sets it as it is."""
    most: int | None = None
    """The most characters of a text."""
    array: str = ""
    """The name of the argument of verbs that take many messages."""
    unset: str = "None"
    """The default in Python."""
    is_filterable: bool = False
    """Whether correlation filters may compare it."""
    is_staged: bool = True
    """Whether a staged table may have it."""
    is_kept: bool = True
    """Whether a message keeps it: what only decides how the message is stored is not kept, or in another form."""

    @property
    def identifier(self) -> str:
        """The name in SQL."""
        return identifier(self.name)

    @property
    def arrays(self) -> str:
        """The name of the argument of verbs that take many messages."""
        return self.array or f"{self.name}s"

    @property
    def default(self) -> str:
        """The default in SQL."""
        return "null" if self.unset == "None" else self.unset


def _text(
    name: str,
    most: int,
    meaning: str,
    option: str,
    *,
    is_filterable: bool = False,
    is_staged: bool = True,
    is_kept: bool = True,
) -> Column:
    return Column(
        name,
        "text",
        "str",
        meaning,
        option,
        most,
        is_filterable=is_filterable,
        is_staged=is_staged,
        is_kept=is_kept,
    )


MESSAGE: Final = (
    Column("body", "jsonb", "Any", "The body, if it is JSON.", array="bodies"),
    Column("binary_body", "bytea", "bytes", "The body, if it is bytes.", array="binary_bodies"),
    _text(
        "message_id",
        128,
        "The id that the sender has given the message; duplicates are detected by it.",
        "The application's own id of the message.",
        is_filterable=True,
    ),
    _text(
        "correlation_id",
        128,
        "The id that related messages share, as the sender has given it.",
        "An id that related messages share.",
        is_filterable=True,
    ),
    _text(
        "subject",
        260,
        "The subject, as the sender has given it; handlers are chosen by it.",
        "The subject.",
        is_filterable=True,
    ),
    _text(
        "content_type",
        260,
        "The media type of the body, as the sender has given it.",
        "The type of the body, such as application/json.",
        is_filterable=True,
    ),
    _text(
        "reply_to",
        260,
        "The queue that an answer shall be sent to, as the sender has given it.",
        "The queue for a reply.",
        is_filterable=True,
    ),
    Column(
        "application_properties",
        "jsonb",
        "Mapping[str, Any]",
        "The properties that the sender has given the message, or a receiver when it settled it.",
        array="application_properties",
    ),
    Column(
        "priority",
        "integer",
        "int",
        "The priority; lower ones are served first.",
        array="priorities",
        unset="0",
        is_kept=False,
    ),
    Column(
        "time_to_live",
        "interval",
        "timedelta",
        "The time after which the message expires; it starts again when a dead letter is resubmitted.",
        array="times_to_live",
        is_kept=False,
    ),
    Column("scheduled_enqueue_time", "timestamptz", "datetime", "When the message becomes available.", is_kept=False),
    _text(
        "session_id",
        128,
        "The session that the message belongs to, as the sender has given it.",
        "The session that it belongs to, or its group in a fair queue.",
        is_filterable=True,
        is_staged=False,
    ),
    _text(
        "reply_to_session_id",
        128,
        "The session that an answer shall belong to, as the sender has given it.",
        "The session for a reply.",
        is_filterable=True,
    ),
    _text(
        "to",
        260,
        "Whom the message is meant for, as the sender has given it.",
        "Whom it is meant for.",
        is_filterable=True,
    ),
    _text(
        "partition_key",
        128,
        "The key of messages that belong together, as the sender has given it; there are no partitions.",
        "The key of messages that belong together; the session, if it has one.",
    ),
    _text(
        "unique_key",
        128,
        "The key that one message of the queue may have at a time, as the sender has given it.",
        "A key that one message of the queue may have at a time.",
        is_staged=False,
        is_kept=False,
    ),
    Column(
        "unique_scope",
        "text",
        "UniqueScope",
        "How long a message has its unique_key to itself: while it waits, or until it is settled.",
        is_staged=False,
        is_kept=False,
    ),
)

TEXTS: Final = tuple(column for column in MESSAGE if column.most is not None)

#: The columns of every table of messages.
KEPT: Final = tuple(column for column in MESSAGE if column.is_kept)

KEPT_TEXTS: Final = tuple(column for column in TEXTS if column.is_kept)

FILTERABLE: Final = tuple(column for column in MESSAGE if column.is_filterable)

STAGED: Final = tuple(column for column in MESSAGE if column.is_staged)
