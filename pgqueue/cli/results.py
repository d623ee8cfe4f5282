"""``pgqueue result`` and ``wait``: the outcome of a message, and its result."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from pgqueue import Outcome
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.failures import Failed
from pgqueue.cli.group import top
from pgqueue.cli.options import duration
from pgqueue.cli.output import Result
from pgqueue.cli.queues import Name
from pgqueue.cli.receiving import Number


@on_database(top, "result", short_help="Show the result of a message.")
def result(database: Database, name: Name, sequence_number: Number) -> Result:
    """Show the outcome of a message, and its result.

    A queue keeps results once `pgqueue queue update --result-retention` has set it.
    """
    outcome = database.client.queue(name).result(sequence_number)
    if outcome is None:
        return Result(None, note=f"message {sequence_number} of {name} is not settled, or not known any more")
    return _shown(name, sequence_number, outcome)


@on_database(top, "wait", short_help="Wait for the result of a message.")
def wait(
    database: Database,
    name: Name,
    sequence_number: Number,
    timeout: Annotated[
        timedelta | None, duration("How long to wait, such as 30s; by default until the message is settled.")
    ] = None,
) -> Result:
    """Wait until a message is settled, and show its outcome. Fails unless it was completed."""
    outcome = database.client.queue(name).wait_for(sequence_number, timeout=timeout)
    shown = _shown(name, sequence_number, outcome)
    if outcome.state == "COMPLETED":
        return shown
    return Result(shown.value, shown.text, end=Failed(f"message {sequence_number} of {name} was not completed"))


def _shown(name: str, sequence_number: int, outcome: Outcome) -> Result:
    known: dict[str, Any] = {
        "queue": name,
        "sequence_number": sequence_number,
        "state": outcome.state,
        "result": outcome.result,
        "error": outcome.error,
        "last_error": outcome.last_error,
        "settled_at": outcome.settled_at,
    }
    detail = outcome.error or outcome.raw_result
    return Result(known, outcome.state + (f": {detail}" if detail else ""))
