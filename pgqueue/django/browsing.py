"""Messages for the admin pages, a page at a time by number: no page counts, or skips, what comes before it.

And what may be done there: dead letters are given back to their queues.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, LiteralString

from django.db import router
from django.db.transaction import atomic
from psycopg import Error
from psycopg.rows import dict_row

from pgqueue.dashboard import queries
from pgqueue.dashboard.database import Rows
from pgqueue.django import driver_connection
from pgqueue.django.models import DeadLetter, QueuedMessage
from pgqueue.transports.translation import translate

#: The most numbers that an entry of the audit log has.
RECORDED = 1000
FILTERS = ("state", "message_id", "correlation_id", "subject", "reason")
SHOWN_APART = {"body", "binary_body", "pretty", "deliveries", "history", "explanation"}
QUEUES: LiteralString = "select name from pgqueue.queue_settings() order by name"
RESUBMIT: LiteralString = "select count(*) from pgqueue.resubmit(%(queue)s, %(numbers)s::bigint[])"
RECORD: LiteralString = "select pgqueue.record_action('resubmit', %(queue)s, %(messages)s, %(details)s)"


class DjangoRows(Rows):
    """Statements over Django's connection."""

    def __init__(self, using: str | None = None) -> None:
        self._using = using or router.db_for_read(QueuedMessage)

    def all(self, query: LiteralString, **parameters: Any) -> list[dict[str, Any]]:
        """All rows."""
        connection = driver_connection(self._using)
        try:
            with atomic(using=self._using), connection.cursor(row_factory=dict_row) as cursor:
                return cursor.execute(query, parameters).fetchall()
        except Error as error:
            raise translate(error) from error

    def one(self, query: LiteralString, **parameters: Any) -> dict[str, Any] | None:
        """The first row, or None."""
        return next(iter(self.all(query, **parameters)), None)


def queue_names() -> list[str]:
    """The queues that there are."""
    return DjangoRows().column(QUEUES)


def page(queue: str, after: int, filters: dict[str, str | None]) -> dict[str, Any]:
    """Messages of a queue beyond a number, and the number that the next page comes after, if there is one."""
    found = queries.messages(DjangoRows(), queue, after=after, **filters)
    for each in found["messages"]:
        each["object_id"] = f"{queue} {each['sequence_number']}"
    return found


def properties(shown: dict[str, Any]) -> list[tuple[str, Any]]:
    """The properties of a message besides its body, its errors and its history."""
    return [(name, value) for name, value in shown.items() if value is not None and name not in SHOWN_APART]


def message(queue: str, number: int) -> dict[str, Any]:
    """One message whole.

    Raises:
        MessageNotFoundError: the queue has neither the message nor a record of it.
    """
    return queries.message(DjangoRows(), queue, number)


def resubmit(letters: Sequence[tuple[str, int]], user: str) -> int:
    """Resubmits dead letters, by queue and number, and records the user in the audit log; returns their number.

    All or none; those that are locked, or no longer there, are skipped.
    """
    using = router.db_for_write(DeadLetter)
    rows, resubmitted = DjangoRows(using), 0
    with atomic(using=using):
        for queue in sorted({queue for queue, _ in letters}):
            numbers = [number for name, number in letters if name == queue]
            messages = rows.value(RESUBMIT, queue=queue, numbers=numbers)
            details = json.dumps({"user": user, "numbers": numbers[:RECORDED]})
            rows.value(RECORD, queue=queue, messages=messages, details=details)
            resubmitted += messages
    return resubmitted
