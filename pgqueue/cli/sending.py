"""``pgqueue send``: one message from the command line, or a file of them; ``pgqueue cancel`` before its time comes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from pgqueue import Message, SequenceNumber
from pgqueue.cli import output
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.failures import Failed, WrongUse
from pgqueue.cli.output import AsJson
from pgqueue.cli.quantities import Moment, parse_duration, parse_moment
from pgqueue.cli.queues import Name
from pgqueue.errors import PGQueueError
from pgqueue.model.encoding import LONGEST, encode
from pgqueue.model.json_text import decode

STDIN = "-"
AT_ONCE = 1000
PANEL = "The message"


class Form(Enum):
    """How a body is read."""

    JSON = "JSON"
    TEXT = "text"
    BINARY = "bytes"

    def read(self, raw: bytes) -> Any:
        """Raises ValueError for what is not of this form."""
        match self:
            case Form.JSON:
                return decode(raw.decode())
            case Form.TEXT:
                return raw.decode()
            case Form.BINARY:
                return raw


def parse_property(text: str) -> tuple[str, Any]:
    """``key=value`` is a text, ``key:=value`` is JSON."""
    key, sign, value = text.partition("=")
    if not sign or key in ("", ":"):
        raise typer.BadParameter(f"{text!r} is no property: write key=text, or key:=JSON")
    if not key.endswith(":"):
        return key, value
    try:
        return key[:-1], decode(value)
    except ValueError as error:
        raise typer.BadParameter(f"the value of {key[:-1]!r} is not JSON: {error}") from None


def parse_time_to_live(text: str) -> timedelta:
    duration = parse_duration(text)
    if not timedelta(0) < duration <= LONGEST:
        raise typer.BadParameter(f"{text!r} is no time to live: say more than 0, and {LONGEST.days}d at the most")
    return duration


def _field(meaning: str, *names: str, **options: Any) -> Any:
    return typer.Option(*names, help=meaning, show_default=False, rich_help_panel=PANEL, **options)


@dataclass(frozen=True)
class Envelope:
    """All of a message except its body."""

    message_id: str | None
    correlation_id: str | None
    subject: str | None
    content_type: str | None
    reply_to: str | None
    priority: int
    properties: dict[str, Any] | None
    time_to_live: timedelta | None
    at: datetime | None

    def around(self, body: Any) -> Message:
        return Message(
            body,
            message_id=self.message_id,
            correlation_id=self.correlation_id,
            subject=self.subject,
            content_type=self.content_type,
            reply_to=self.reply_to,
            priority=self.priority,
            application_properties=self.properties,
            time_to_live=self.time_to_live,
            scheduled_enqueue_time=self.at,
        )


@on_database
def send(
    database: Database,
    name: Name,
    body: Annotated[
        str | None,
        typer.Argument(help=f"The body, as JSON; {STDIN} reads it from stdin.", show_default=False),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--file",
            "-f",
            metavar="PATH",
            help=f"Send each line of this file as a message, all or none; {STDIN} is stdin.",
            show_default=False,
        ),
    ] = None,
    text: Annotated[bool, typer.Option("--text", help="A body is text as it stands, not JSON.")] = False,
    binary: Annotated[bool, typer.Option("--binary", help="A body is bytes as they stand, not JSON.")] = False,
    properties: Annotated[
        list[str] | None,
        _field(
            "An application property: key=text, or key:=JSON. May be repeated.",
            "--property",
            "-p",
            metavar="KEY=VALUE",
        ),
    ] = None,
    message_id: Annotated[str | None, _field("The application's own id of the message.")] = None,
    correlation_id: Annotated[str | None, _field("What the message belongs to.")] = None,
    subject: Annotated[str | None, _field("What it is about.")] = None,
    content_type: Annotated[str | None, _field("What the body is, such as application/json.")] = None,
    reply_to: Annotated[str | None, _field("The queue that an answer should go to.")] = None,
    priority: Annotated[int, _field("From -100 to 100; the smaller is served the sooner.", min=-100, max=100)] = 0,
    time_to_live: Annotated[
        timedelta | None,
        _field(
            "It expires after so long, or sooner if its queue says so.", parser=parse_time_to_live, metavar="DURATION"
        ),
    ] = None,
    at: Annotated[
        Moment | None,
        _field(
            "Nobody receives it before: a time with its zone, or a duration from now, such as 10m.",
            parser=parse_moment,
            metavar="TIME",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Send a message, or a file of them. When this returns, they are stored.

    pgqueue send orders '{"id": 7}' --subject new -p shop=berlin -p attempt:=1

    pgqueue send orders --text "call me back"

    pgqueue send orders --file orders.jsonl

    pgqueue send orders '{"id": 8}' --at 2026-12-24T18:00+01:00 --time-to-live 2h

    Where the queue detects duplicates, a message id that was sent before is not stored again; that is no failure.
    """
    if (body is None) == (file is None):
        raise WrongUse(f"what is to be sent? Say a body, {STDIN} to read it from stdin, or --file PATH")
    if file is not None and message_id is not None:
        raise WrongUse("--message-id is for one message, and --file may send many")
    form = _form(text, binary)
    given = dict(map(parse_property, properties or ())) or None
    due = at.after(database.now()) if at else None
    envelope = Envelope(message_id, correlation_id, subject, content_type, reply_to, priority, given, time_to_live, due)
    if file is not None:
        _print_numbers(name, _send_file(database, name, file, form, envelope), as_json)
    else:
        whole = sys.stdin.buffer.read() if body == STDIN else os.fsencode(body or "")
        _print_numbers(name, [_send_one(database, name, whole, form, envelope)], as_json, message_id)


@on_database
def cancel(
    database: Database,
    name: Name,
    sequence_numbers: Annotated[
        list[int], typer.Argument(metavar="NUMBER", help="Their sequence numbers, which send has said.")
    ],
    as_json: AsJson = False,
) -> None:
    """Cancel scheduled messages before their time comes, all or none. They are deleted.

    pgqueue cancel orders 17 18

    Those that were abandoned with a delay are scheduled, too. `pgqueue peek` shows what is.
    """
    database.client.queue(name).cancel_scheduled(sequence_numbers)
    if as_json:
        output.document({"queue": name, "cancelled": sorted(set(sequence_numbers))})
    else:
        output.say(f"{output.counted(len(set(sequence_numbers)), 'message')} of {name} cancelled")


def _send_one(database: Database, name: str, body: bytes, form: Form, envelope: Envelope) -> SequenceNumber:
    try:
        message = envelope.around(form.read(body))
    except ValueError as error:
        raise WrongUse(f"the body is not {form.value}: {error}. Quote it for JSON, or say --text") from None
    return database.client.queue(name).send(message)


def _send_file(database: Database, name: str, file: str, form: Form, envelope: Envelope) -> list[SequenceNumber]:
    """Send all lines in one transaction, so that after a failure the file can be corrected and sent again."""
    numbers: list[SequenceNumber] = []
    with _opened(file) as stream, database.transaction() as transaction:
        messages = _messages(file, stream, form, envelope)
        while batch := list(islice(messages, AT_ONCE)):
            numbers += database.client.queue(name).send_batch(batch, transaction=transaction)
    return numbers


def _messages(file: str, stream: BinaryIO, form: Form, envelope: Envelope) -> Iterator[Message]:
    for number, line in enumerate(stream, start=1):
        if not line.strip():
            continue
        try:
            message = envelope.around(form.read(line.rstrip(b"\r\n")))
            encode(message)
        except ValueError as error:
            reason = error.args[0] if isinstance(error, PGQueueError) else error
            raise Failed(f"{file}, line {number}: not {form.value}: {reason}; nothing was sent") from None
        yield message


def _form(text: bool, binary: bool) -> Form:
    if text and binary:
        raise WrongUse("--text and --binary say two things: say one of them")
    return Form.TEXT if text else Form.BINARY if binary else Form.JSON


def _opened(file: str) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdin.buffer) if file == STDIN else Path(file).open("rb")


def _print_numbers(name: str, numbers: list[SequenceNumber], as_json: bool, message_id: str | None = None) -> None:
    """Print the numbers; the lines of a file have no message ids, so none is a duplicate."""
    duplicate = any(number.is_duplicate for number in numbers)
    if as_json:
        output.document({"queue": name, "sequence_numbers": numbers, "duplicate": duplicate})
    elif duplicate:
        output.say(f"message id {message_id} was sent before as {numbers[0]}: nothing was stored")
    elif len(numbers) == 1:
        output.say(f"sent message {numbers[0]} to {name}")
    else:
        output.say(f"sent {output.counted(len(numbers), 'message')} to {name}")
