"""Transactions by their ids, and the other sessions of the same role."""

from __future__ import annotations

from pgqueue.statements.statement import Statement, nothing, scalar


def end_transaction(transaction_id: str) -> Statement[None]:
    """End the session in which a transaction is open, so that it is rolled back; none if it is already over.

    The session is looked up: the process id that a driver has may be PgBouncer's invention, or another session's by
    now.
    """
    return Statement(
        """select pg_terminate_backend(pid) from pg_stat_activity
            where backend_xid = %(transaction_id)s::text::xid8::xid""",
        {"transaction_id": transaction_id},
        nothing,
    )


def outcome(transaction_id: str) -> Statement[str | None]:
    """Returns ``in progress``, ``committed`` or ``aborted``; None if the server no longer knows."""
    return Statement(
        "select pg_xact_status(%(transaction_id)s::text::xid8)", {"transaction_id": transaction_id}, scalar
    )
