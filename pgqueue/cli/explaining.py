"""``pgqueue explain`` and ``pgqueue unlock``: why a message is not delivered, and what a person can do about it."""

from __future__ import annotations

from typing import Annotated

import typer

from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.group import top
from pgqueue.cli.output import Result
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


@top.command("explain")
@on_database
def explain(database: Database, name: Name, sequence_number: Number) -> Result:
    """Explain why a message is delivered now, or not. Nothing is locked or changed."""
    explanation = database.client.queue(name).explain_message(sequence_number)
    document = {"queue": name, "sequence_number": sequence_number, "explanation": explanation}
    queue = name.removesuffix(DEAD_LETTERS)
    for function, command in COMMANDS.items():
        called = command.format(queue=queue, number=sequence_number)
        explanation = explanation.replace(function, f"`pgqueue {called}`")
    return Result(document, explanation)


@top.command("unlock", short_help="Take the lock of a message away from its holder.")
@on_database
def unlock(database: Database, name: Name, sequence_number: Number) -> Result:
    """Take the lock of a message away from its holder, who can settle it no more. Anyone can receive it.

    The delivery has counted: a message that was delivered as often as its queue allows goes to the dead letters.
    """
    database.client.queue(name).unlock(sequence_number)
    done = f"message {sequence_number} of {name} unlocked"
    return Result({"queue": name, "sequence_number": sequence_number, "unlocked": True}, done)
