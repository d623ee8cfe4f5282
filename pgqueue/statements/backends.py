"""Transactions by their ids, and other sessions of the same role."""

from __future__ import annotations

from pgqueue.statements.statement import Statement, nothing, scalar


def end_transaction(transaction_id: str) -> Statement[None]:
    """Ends the session that a transaction is open in, so that it is rolled back; none, when it is over by now.

    The session is looked for: what a driver knows of it may be made up by PgBouncer, and another's by now.
    """
    return Statement(
        """select pg_terminate_backend(pid) from pg_stat_activity
            where backend_xid = %(transaction_id)s::text::xid8::xid""",
        {"transaction_id": transaction_id},
        nothing,
    )


def outcome(transaction_id: str) -> Statement[str | None]:
    """Answers ``in progress``, ``committed`` or ``aborted``; None where the server has forgotten it."""
    return Statement(
        "select pg_xact_status(%(transaction_id)s::text::xid8)", {"transaction_id": transaction_id}, scalar
    )
