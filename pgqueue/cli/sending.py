"""``pgqueue send``: one message from the command line, or a file of them; ``pgqueue cancel`` before its time comes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from pgqueue import Message, Queue, SequenceNumber, Topic
from pgqueue.cli import output
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.failures import Failed, WrongUse
from pgqueue.cli.options import with_options
from pgqueue.cli.output import AsJson
from pgqueue.cli.quantities import Moment, parse_duration, parse_moment
from pgqueue.cli.queues import Name
from pgqueue.errors import PGQueueError
from pgqueue.model.arguments import LONGEST
from pgqueue.model.columns import TEXTS
from pgqueue.model.encoding import encode
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
        raise typer.BadParameter(f"--property {text!r}: write key=text, or key:=JSON")
    if not key.endswith(":"):
        return key, value
    try:
        return key[:-1], decode(value)
    except ValueError as error:
        raise typer.BadParameter(f"the value of {key[:-1]!r} is not JSON: {error}") from None


def parse_time_to_live(text: str) -> timedelta:
    duration = parse_duration(text)
    if not timedelta(0) < duration <= LONGEST:
        raise typer.BadParameter(f"{text!r} is no time to live: give more than 0, and {LONGEST.days}d at the most")
    return duration


def _field(meaning: str, *names: str, **options: Any) -> Any:
    return typer.Option(*names, help=meaning, show_default=False, rich_help_panel=PANEL, **options)


AsText = Annotated[bool, typer.Option("--text", help="Send the body as text, not as JSON.")]
AsBinary = Annotated[bool, typer.Option("--binary", help="Send the body as bytes, not as JSON.")]
Properties = Annotated[
    list[str] | None,
    _field(
        "An application property: key=text, or key:=JSON. May be repeated.",
        "--property",
        "-p",
        metavar="KEY=VALUE",
    ),
]
#: The fields that an option sets as they are.
TEXT_OPTIONS = {column.name: Annotated[str | None, _field(column.option)] for column in TEXTS}
Priority = Annotated[int, _field("From -100 to 100; lower numbers are delivered first.", min=-100, max=100)]
TimeToLive = Annotated[
    timedelta | None,
    _field(
        "How long until it expires; sooner if its queue has a shorter default.",
        parser=parse_time_to_live,
        metavar="DURATION",
    ),
]


@dataclass(frozen=True)
class Envelope:
    """All of a message except its body."""

    texts: dict[str, str | None]
    priority: int
    properties: dict[str, Any] | None
    time_to_live: timedelta | None
    at: datetime | None = None

    def around(self, body: Any) -> Message:
        return Message(
            body,
            priority=self.priority,
            application_properties=self.properties,
            time_to_live=self.time_to_live,
            scheduled_enqueue_time=self.at,
            **self.texts,
        )


@on_database
@with_options("texts", TEXT_OPTIONS)
def send(
    database: Database,
    name: Name,
    body: Annotated[
        str | None,
        typer.Argument(metavar="BODY", help=f"The body, as JSON; {STDIN} reads it from stdin.", show_default=False),
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
    text: AsText = False,
    binary: AsBinary = False,
    properties: Properties = None,
    *,
    texts: dict[str, str | None],
    priority: Priority = 0,
    time_to_live: TimeToLive = None,
    at: Annotated[
        Moment | None,
        _field(
            "Do not deliver it before: a time with its zone, or a duration from now, such as 10m.",
            parser=parse_moment,
            metavar="TIME",
        ),
    ] = None,
    topic: Annotated[bool, typer.Option("--topic", help="The name is that of a topic.")] = False,
    as_json: AsJson = False,
) -> None:
    """Send a message, or a file of them. When this returns, they are stored.

    pgqueue send orders '{"id": 7}' --subject new -p shop=berlin -p attempt:=1

    pgqueue send orders --text "call me back"

    pgqueue send orders --file orders.jsonl

    pgqueue send orders '{"id": 8}' --at 2026-12-24T18:00+01:00 --time-to-live 2h

    pgqueue send --topic events '{"id": 7}' --subject paid

    Where the queue detects duplicates, a message id that was sent before is not stored again; that is no failure.
    """
    if (body is None) == (file is None):
        raise WrongUse(f"what is to be sent? Give a body, {STDIN} to read it from stdin, or --file PATH")
    if file is not None and texts["message_id"] is not None:
        raise WrongUse("--message-id is for one message, and --file may send many")
    form = form_of(text, binary)
    given = dict(map(parse_property, properties or ())) or None
    due = at.after(database.now()) if at else None
    envelope = Envelope(texts, priority, given, time_to_live, due)
    target = database.client.topic(name) if topic else database.client.queue(name)
    if file is not None:
        sent = _send_file(database, target, file, form, envelope)
    else:
        whole = sys.stdin.buffer.read() if body == STDIN else os.fsencode(body or "")
        sent = [target.send(read_message(whole, form, envelope))]
    if topic:
        _print_counts(name, sent, as_json)
    else:
        _print_numbers(name, sent, as_json, texts["message_id"])


@on_database
def cancel(
    database: Database,
    name: Name,
    sequence_numbers: Annotated[
        list[int], typer.Argument(metavar="NUMBER", help="Their sequence numbers, as printed by send.")
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


def read_message(body: bytes, form: Form, envelope: Envelope) -> Message:
    try:
        return envelope.around(form.read(body))
    except ValueError as error:
        raise WrongUse(f"the body is not {form.value}: {error}. Quote it for JSON, or use --text") from None


def _send_file(database: Database, target: Queue | Topic, file: str, form: Form, envelope: Envelope) -> Sequence[int]:
    """Send all lines in one transaction, so that after a failure the file can be corrected and sent again."""
    sent: list[int] = []
    with _opened(file) as stream, database.transaction() as transaction:
        messages = _messages(file, stream, form, envelope)
        while batch := list(islice(messages, AT_ONCE)):
            sent += target.send_batch(batch, transaction=transaction)
    return sent


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


def form_of(text: bool, binary: bool) -> Form:
    if text and binary:
        raise WrongUse("--text and --binary exclude each other: use one of them")
    return Form.TEXT if text else Form.BINARY if binary else Form.JSON


def _opened(file: str) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdin.buffer) if file == STDIN else Path(file).open("rb")


def _print_counts(topic: str, counts: Sequence[int], as_json: bool) -> None:
    """Print to how many subscriptions the messages of a topic go."""
    if as_json:
        output.document({"topic": topic, "subscriptions": counts})
    elif len(counts) == 1:
        output.say(f"sent to {output.counted(counts[0], 'subscription')} of {topic}")
    else:
        output.say(f"sent {output.counted(len(counts), 'message')} to {topic}: {sum(counts):,} stored")


def _print_numbers(name: str, numbers: Sequence[int], as_json: bool, message_id: str | None = None) -> None:
    """Print the numbers; the lines of a file have no message ids, so none is a duplicate."""
    duplicate = any(isinstance(number, SequenceNumber) and number.is_duplicate for number in numbers)
    if as_json:
        output.document({"queue": name, "sequence_numbers": numbers, "duplicate": duplicate})
    elif duplicate:
        output.say(f"message id {message_id} was sent before as {numbers[0]}: nothing was stored")
    elif len(numbers) == 1:
        output.say(f"sent message {numbers[0]} to {name}")
    else:
        output.say(f"sent {output.counted(len(numbers), 'message')} to {name}")
