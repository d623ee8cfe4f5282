"""``pgqueue dead-letters``: list, show, resubmit, purge."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from pgqueue.cli import documents, output
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.failures import Failed
from pgqueue.cli.group import Group, top
from pgqueue.cli.options import MaxMessages, Start, duration
from pgqueue.cli.output import AsJson, Result
from pgqueue.cli.progress import working
from pgqueue.cli.queues import Name, Yes, ask
from pgqueue.model.message import PeekedMessage

app = Group(
    no_args_is_help=True, help="List, show, resubmit and purge the messages that could not be delivered or processed."
)
top.add_typer(app, name="dead-letters", short_help="List, show, resubmit and purge dead letters.")


@on_database(app, "list")
def list_(database: Database, name: Name, max_messages: MaxMessages = 20, start: Start = 0) -> Result:
    """List the dead letters of a queue, with the reasons, by sequence number."""
    messages = database.client.queue(name).dead_letters.peek(max_messages=max_messages, from_sequence_number=start)
    return Result(
        messages,
        picture=lambda found: documents.dead_letters_table(found, database.now()),
        hint=f"{name} has no dead letters" + (f" from {start} on" if start else ""),
    )


@on_database(app, "show")
def show(
    database: Database,
    name: Name,
    sequence_number: Annotated[int, typer.Argument(metavar="NUMBER", help="Its sequence number.")],
) -> Result:
    """Show everything about one dead letter."""
    found = _find(database, name, sequence_number)
    if found is None:
        raise _unknown(name, [sequence_number])
    return Result(found, picture=documents.message_record)


@on_database(app, "resubmit")
def resubmit(
    database: Database,
    name: Name,
    sequence_numbers: Annotated[
        list[int] | None, typer.Argument(metavar="NUMBER", help="The sequence numbers; by default all that match.")
    ] = None,
    reason: Annotated[
        str | None, typer.Option(help="Only those with this reason, such as MaxDeliveryCountExceeded.")
    ] = None,
    older_than: Annotated[
        timedelta | None, duration("Only those dead-lettered longer ago than this, such as 1h.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="The maximum number of messages.")] = None,
    as_json: AsJson = False,
) -> Result:
    """Send dead letters back to their queue, to be delivered as if for the first time.

    pgqueue dead-letters resubmit orders --reason MaxDeliveryCountExceeded --older-than 1h

    A dead letter must meet every condition given; without any, all are sent back.
    """
    with working(f"sending dead letters back to {name}", as_json=as_json):
        resubmitted = database.client.queue(name).dead_letters.resubmit(
            sequence_numbers=sequence_numbers or None, reason=reason, older_than=older_than, limit=limit
        )
    missing = sorted(set(sequence_numbers or ()) - set(resubmitted))
    return Result(
        {"queue": name, "sequence_numbers": resubmitted},
        f"{output.counted(len(resubmitted), 'dead letter')} sent back to {name}",
        hint="" if reason is None or resubmitted else f"`pgqueue dead-letters list {name}` shows the reasons",
        end=Failed(f"not resubmitted, because not there, locked or not fitting: {_listed(missing)}")
        if missing
        else None,
    )


@on_database(app, "purge")
def purge(
    database: Database,
    name: Name,
    sequence_numbers: Annotated[
        list[int] | None, typer.Argument(metavar="NUMBER", help="The sequence numbers; by default all.")
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> Result:
    """Delete all dead letters of a queue, locked ones too. The messages of the queue stay. There is no way back.

    pgqueue dead-letters purge orders 4711 4712

    With numbers, those that a receiver has locked stay; if one of them is unknown, nothing is deleted.
    """
    counts = database.client.get_queue_runtime_properties(name)
    wanted = sorted(set(sequence_numbers or ()))
    unknown = [number for number in wanted if _find(database, name, number) is None]
    if unknown:
        raise _unknown(name, unknown)
    concerned = output.counted(len(wanted) or counts.dead_letters, "dead letter")
    ask(f"Delete {concerned} of {name}?", yes)
    with working(f"deleting {concerned} of {name}", as_json=as_json):
        purged = database.client.queue(name).dead_letters.purge(sequence_numbers=wanted or None)
    left = [number for number in wanted if _find(database, name, number) is not None] if purged < len(wanted) else []
    return Result(
        {"queue": name, "purged": purged},
        f"{output.counted(purged, 'dead letter')} of {name} deleted",
        end=Failed(f"not deleted, because locked: {_listed(left)}") if left else None,
    )


def _find(database: Database, name: str, sequence_number: int) -> PeekedMessage | None:
    found = database.client.queue(name).dead_letters.peek(from_sequence_number=sequence_number)
    return found[0] if found and found[0].sequence_number == sequence_number else None


def _unknown(name: str, sequence_numbers: list[int]) -> Failed:
    noun = "dead letter" if len(sequence_numbers) == 1 else "dead letters"
    return Failed(f"{name} has no {noun} {_listed(sequence_numbers)}: `pgqueue dead-letters list {name}` shows them")


def _listed(sequence_numbers: list[int]) -> str:
    return ", ".join(map(str, sequence_numbers))
