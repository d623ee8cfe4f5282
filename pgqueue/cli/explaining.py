"""``pgqueue explain`` and ``pgqueue unlock``: why a message is not delivered, and what a person can do about it."""

from __future__ import annotations

from typing import Annotated

import typer

from pgqueue.cli import output
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.output import AsJson
from pgqueue.cli.queues import Name

Number = Annotated[int, typer.Argument(metavar="NUMBER", help="Its sequence number.")]


@on_database
def explain(database: Database, name: Name, sequence_number: Number, as_json: AsJson = False) -> None:
    """Say why a message is delivered now or is not. Nothing is locked or changed."""
    explanation = database.client.queue(name).explain_message(sequence_number)
    if as_json:
        output.document({"queue": name, "sequence_number": sequence_number, "explanation": explanation})
    else:
        resubmit = f"`pgqueue dead-letters resubmit {name} {sequence_number}`"
        output.say(explanation.replace("pgqueue.resubmit gives", f"{resubmit} gives"))


@on_database
def unlock(database: Database, name: Name, sequence_number: Number, as_json: AsJson = False) -> None:
    """Take the lock of a message away, whoever holds it. The holder can settle it no more, and anyone can receive it.

    The delivery has counted: a message that was delivered as often as its queue allows goes to the dead letters.
    """
    database.client.queue(name).unlock(sequence_number)
    if as_json:
        output.document({"queue": name, "sequence_number": sequence_number, "unlocked": True})
    else:
        output.say(f"message {sequence_number} of {name} unlocked")
