"""``pgqueue dead-letters``: list, show, resubmit, purge."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from pgqueue.cli import documents, output
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.failures import Failed
from pgqueue.cli.group import Group
from pgqueue.cli.output import AsJson
from pgqueue.cli.progress import working
from pgqueue.cli.quantities import parse_duration
from pgqueue.cli.queues import Name, Yes, ask
from pgqueue.model.message import PeekedMessage

app = Group(
    no_args_is_help=True, help="List, show, resubmit and purge the messages that could not be delivered or processed."
)


@app.command("list")
@on_database
def list_(
    database: Database,
    name: Name,
    max_messages: Annotated[
        int, typer.Option("--max-messages", "-n", min=1, help="The maximum number of messages.")
    ] = 20,
    start: Annotated[
        int, typer.Option("--from", metavar="NUMBER", help="Begin with this sequence number.", show_default=False)
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """List the dead letters of a queue, with the reasons, by sequence number."""
    messages = database.client.queue(name).dead_letters.peek(max_messages=max_messages, from_sequence_number=start)
    if as_json:
        output.document([documents.message_document(message) for message in messages])
    elif messages:
        output.show(documents.dead_letters_table(messages, database.now()))
    else:
        output.hint(f"{name} has no dead letters" + (f" from {start} on" if start else ""))


@app.command("show")
@on_database
def show(
    database: Database,
    name: Name,
    sequence_number: Annotated[int, typer.Argument(metavar="NUMBER", help="Its sequence number.")],
    as_json: AsJson = False,
) -> None:
    """Show everything about one dead letter."""
    found = _find(database, name, sequence_number)
    if found is None:
        raise _unknown(name, [sequence_number])
    if as_json:
        output.document(documents.message_document(found))
    else:
        output.show(documents.message_record(found))


@app.command("resubmit")
@on_database
def resubmit(
    database: Database,
    name: Name,
    sequence_numbers: Annotated[
        list[int] | None,
        typer.Argument(metavar="NUMBER", help="The sequence numbers; by default all that match.", show_default=False),
    ] = None,
    reason: Annotated[
        str | None,
        typer.Option(help="Only those with this reason, such as MaxDeliveryCountExceeded.", show_default=False),
    ] = None,
    older_than: Annotated[
        timedelta | None,
        typer.Option(
            parser=parse_duration,
            metavar="DURATION",
            help="Only those dead-lettered longer ago than this, such as 1h.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="The maximum number of messages.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Send dead letters back to their queue, to be delivered as if for the first time.

    pgqueue dead-letters resubmit orders --reason MaxDeliveryCountExceeded --older-than 1h

    A dead letter must meet every condition given; without any, all are sent back.
    """
    with working(f"sending dead letters back to {name}", as_json=as_json):
        resubmitted = database.client.queue(name).dead_letters.resubmit(
            sequence_numbers=sequence_numbers or None, reason=reason, older_than=older_than, limit=limit
        )
    if as_json:
        output.document({"queue": name, "sequence_numbers": resubmitted})
    else:
        output.say(f"{output.counted(len(resubmitted), 'dead letter')} sent back to {name}")
        if reason is not None and not resubmitted:
            output.hint(f"`pgqueue dead-letters list {name}` shows the reasons")
    missing = sorted(set(sequence_numbers or ()) - set(resubmitted))
    if missing:
        raise Failed(f"not resubmitted, because not there, locked or not fitting: {_listed(missing)}")


@app.command("purge")
@on_database
def purge(
    database: Database,
    name: Name,
    sequence_numbers: Annotated[
        list[int] | None,
        typer.Argument(metavar="NUMBER", help="The sequence numbers; by default all.", show_default=False),
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
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
    if as_json:
        output.document({"queue": name, "purged": purged})
    else:
        output.say(f"{output.counted(purged, 'dead letter')} of {name} deleted")
    left = [number for number in wanted if _find(database, name, number) is not None] if purged < len(wanted) else []
    if left:
        raise Failed(f"not deleted, because locked: {_listed(left)}")


def _find(database: Database, name: str, sequence_number: int) -> PeekedMessage | None:
    found = database.client.queue(name).dead_letters.peek(from_sequence_number=sequence_number)
    return found[0] if found and found[0].sequence_number == sequence_number else None


def _unknown(name: str, sequence_numbers: list[int]) -> Failed:
    noun = "dead letter" if len(sequence_numbers) == 1 else "dead letters"
    return Failed(f"{name} has no {noun} {_listed(sequence_numbers)}: `pgqueue dead-letters list {name}` shows them")


def _listed(sequence_numbers: list[int]) -> str:
    return ", ".join(map(str, sequence_numbers))
