"""``pgqueue explain`` and ``pgqueue unlock``: why a message is not delivered, and what a person can do about it."""

from __future__ import annotations

from typing import Annotated

import typer

from pgqueue.cli import output
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.output import AsJson
from pgqueue.cli.queues import Name

#: The name of a queue's dead letters ends with this, which a shell would take for a variable.
DEAD_LETTERS = "/$deadletterqueue"

#: SQL that the database advises, and its command.
COMMANDS = {
    "pgqueue.cancel_scheduled": "cancel {queue} {number}",
    "pgqueue.receive_deferred": "receive {queue} --deferred {number}",
    "pgqueue.resubmit": "dead-letters resubmit {queue} {number}",
    "pgqueue.resume_queue": "queue resume {queue}",
    "pgqueue.unlock": "unlock {queue} {number}",
}

Number = Annotated[int, typer.Argument(metavar="NUMBER", help="Its sequence number.")]


@on_database
def explain(database: Database, name: Name, sequence_number: Number, as_json: AsJson = False) -> None:
    """Explain why a message is delivered now, or not. Nothing is locked or changed."""
    explanation = database.client.queue(name).explain_message(sequence_number)
    if as_json:
        output.document({"queue": name, "sequence_number": sequence_number, "explanation": explanation})
    else:
        output.say(_with_commands(explanation, name.removesuffix(DEAD_LETTERS), sequence_number))


def _with_commands(explanation: str, queue: str, number: int) -> str:
    """The explanation, with commands for a shell in the place of functions."""
    for function, command in COMMANDS.items():
        explanation = explanation.replace(function, f"`pgqueue {command.format(queue=queue, number=number)}`")
    return explanation


@on_database
def unlock(database: Database, name: Name, sequence_number: Number, as_json: AsJson = False) -> None:
    """Take the lock of a message away from its holder, who can settle it no more. Anyone can receive it.

    The delivery has counted: a message that was delivered as often as its queue allows goes to the dead letters.
    """
    database.client.queue(name).unlock(sequence_number)
    if as_json:
        output.document({"queue": name, "sequence_number": sequence_number, "unlocked": True})
    else:
        output.say(f"message {sequence_number} of {name} unlocked")
