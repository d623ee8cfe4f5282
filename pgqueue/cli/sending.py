"""``pgqueue send``: one message from the command line, or a file of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from pgqueue import Message, Published, Queue, SequenceNumber, Topic
from pgqueue.cli import output
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.failures import Failed, WrongUse
from pgqueue.cli.group import top
from pgqueue.cli.options import Options, flag
from pgqueue.cli.output import Result
from pgqueue.cli.quantities import Moment, parse_duration, parse_moment
from pgqueue.cli.queues import Name
from pgqueue.errors import PGQueueError
from pgqueue.model.arguments import LONGEST
from pgqueue.model.columns import TEXTS
from pgqueue.model.encoding import encode
from pgqueue.model.json_text import decode
from pgqueue.model.message import OnConflict, UniqueScope

STDIN = "-"
AT_ONCE = 1000
PANEL = "The message"


def parse_properties(given: list[str] | None) -> dict[str, Any] | None:
    return dict(map(_parse_property, given or ())) or None


def _parse_property(text: str) -> tuple[str, Any]:
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


def _parse_time_to_live(text: str) -> timedelta:
    duration = parse_duration(text)
    if not timedelta(0) < duration <= LONGEST:
        raise typer.BadParameter(f"{text!r} is no time to live: give more than 0, and {LONGEST.days}d at the most")
    return duration


def _field(meaning: str, *names: str, **options: Any) -> Any:
    return typer.Option(*names, help=meaning, rich_help_panel=PANEL, **options)


#: The fields that an option sets as they are.
TEXT_OPTIONS = {column.name: Annotated[str | None, _field(column.option)] for column in TEXTS}

MESSAGE = {
    "text": Annotated[bool, flag("text", "Send the body as text, not as JSON.")],
    "binary": Annotated[bool, flag("binary", "Send the body as bytes, not as JSON.")],
    "properties": Annotated[
        list[str] | None,
        _field(
            "An application property: key=text, or key:=JSON. May be repeated.", "--property", "-p", metavar="KEY=VALUE"
        ),
    ],
    **TEXT_OPTIONS,
    "unique_scope": Annotated[
        UniqueScope | None, _field("How long it has its unique key to itself; while it waits, by default.")
    ],
    "priority": Annotated[
        int | None, _field("From -100 to 100; lower numbers are delivered first.", min=-100, max=100)
    ],
    "time_to_live": Annotated[
        timedelta | None,
        _field(
            "How long until it expires; sooner if its queue has a shorter default.",
            parser=_parse_time_to_live,
            metavar="DURATION",
        ),
    ],
}
MessageOptions = Annotated[dict[str, Any], Options(MESSAGE, {"text": False, "binary": False})]


@dataclass(frozen=True)
class Reader:
    """Makes messages of bodies that are of one form."""

    form: str
    decode: Callable[[bytes], Any]
    message: Callable[[Any], Message]

    def read(self, body: bytes) -> Message:
        """Raises ValueError for a body that is not of this form."""
        return self.message(self.decode(body))

    def read_argument(self, body: bytes) -> Message:
        try:
            return self.read(body)
        except ValueError as error:
            raise WrongUse(f"the body is not {self.form}: {error}. Quote it for JSON, or use --text") from None


def reader_of(options: dict[str, Any], at: datetime | None = None) -> Reader:
    """Make a reader of the options for a message."""
    fields = dict(options)
    text, binary = fields.pop("text"), fields.pop("binary")
    properties = parse_properties(fields.pop("properties", None))
    if text and binary:
        raise WrongUse("--text and --binary exclude each other: use one of them")
    message = partial(Message, application_properties=properties, scheduled_enqueue_time=at, **fields)
    if text:
        return Reader("text", bytes.decode, message)
    return Reader("bytes", bytes, message) if binary else Reader("JSON", lambda body: decode(body.decode()), message)


@on_database(top, "send")
def send(
    database: Database,
    name: Name,
    body: Annotated[
        str | None, typer.Argument(metavar="BODY", help=f"The body, as JSON; {STDIN} reads it from stdin.")
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--file",
            "-f",
            metavar="PATH",
            help=f"Send each line of this file as a message, all or none; {STDIN} is stdin.",
        ),
    ] = None,
    *,
    message: MessageOptions,
    at: Annotated[
        Moment | None,
        _field(
            "Do not deliver it before: a time with its zone, or a duration from now, such as 10m.",
            parser=parse_moment,
            metavar="TIME",
        ),
    ] = None,
    on_conflict: Annotated[
        OnConflict, _field("If another message has the unique key: store nothing, take its place, or fail.")
    ] = "ignore",
    topic: Annotated[bool, flag("topic", "The name is that of a topic.")] = False,
) -> Result:
    """Send a message, or a file of them. When this returns, they are stored.

    pgqueue send orders '{"id": 7}' --subject new -p shop=berlin -p attempt:=1

    pgqueue send orders --text "call me back"

    pgqueue send orders --file orders.jsonl

    pgqueue send orders '{"id": 8}' --at 2026-12-24T18:00+01:00 --time-to-live 2h

    pgqueue send --topic events '{"id": 7}' --subject paid

    pgqueue send reports '{"month": 11}' --unique-key report-11 --on-conflict replace --at 5m

    Where the queue detects duplicates, a message id that was sent before is not stored again; that is no failure.
    """
    if (body is None) == (file is None):
        raise WrongUse(f"what is to be sent? Give a body, {STDIN} to read it from stdin, or --file PATH")
    if file is not None:
        _require_one_message(message)
    if topic and on_conflict != "ignore":
        raise WrongUse("--on-conflict is for a queue: each subscription of a topic ignores what it has already")
    reader = reader_of(message, at.after(database.now()) if at else None)
    target = database.client.topic(name) if topic else database.client.queue(name)
    if file is not None:
        sent = _send_file(database, target, file, reader)
    else:
        whole = sys.stdin.buffer.read() if body == STDIN else os.fsencode(body or "")
        read = reader.read_argument(whole)
        sent = [target.send(read, on_conflict=on_conflict) if isinstance(target, Queue) else target.send(read)]
    if topic:
        return _published(name, sent)
    duplicate = any(isinstance(number, SequenceNumber) and number.is_duplicate for number in sent)
    if duplicate:
        same = ", ".join(f"{name} {message[name]}" for name in ("message_id", "unique_key") if name in message)
        text = f"message {sent[0]} has the same {same.replace('_', ' ')}: nothing was stored"
    elif len(sent) == 1:
        text = f"sent message {sent[0]} to {name}"
    else:
        text = f"sent {output.counted(len(sent), 'message')} to {name}"
    return Result({"queue": name, "sequence_numbers": sent, "duplicate": duplicate}, text)


def _require_one_message(options: dict[str, Any]) -> None:
    for name in ("message_id", "unique_key"):
        if name in options:
            raise WrongUse(f"--{name.replace('_', '-')} is for one message, and --file may send many")


def _send_file(database: Database, target: Queue | Topic, file: str, reader: Reader) -> Sequence[int]:
    """Send all lines in one transaction, so that after a failure the file can be corrected and sent again."""
    sent: list[int] = []
    with _opened(file) as stream, database.transaction() as transaction:
        messages = _messages(file, stream, reader)
        while batch := list(islice(messages, AT_ONCE)):
            sent += target.send_batch(batch, transaction=transaction)
    return sent


def _messages(file: str, stream: BinaryIO, reader: Reader) -> Iterator[Message]:
    for number, line in enumerate(stream, start=1):
        if not line.strip():
            continue
        try:
            message = reader.read(line.rstrip(b"\r\n"))
            encode(message)
        except ValueError as error:
            reason = error.args[0] if isinstance(error, PGQueueError) else error
            raise Failed(f"{file}, line {number}: not {reader.form}: {reason}; nothing was sent") from None
        yield message


def _opened(file: str) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdin.buffer) if file == STDIN else Path(file).open("rb")


def _published(topic: str, sent: Sequence[int]) -> Result:
    """To how many subscriptions messages went, and the numbers of those that are scheduled."""
    numbers = [each.sequence_number for each in sent if isinstance(each, Published)]
    if not any(numbers):
        return Result({"topic": topic, "subscriptions": sent}, _counts(topic, sent))
    document = {"topic": topic, "subscriptions": sent, "sequence_numbers": numbers}
    cancelling = (
        f", scheduled: `pgqueue topic cancel {topic} {' '.join(str(each) for each in numbers if each)}` cancels it"
    )
    return Result(document, _counts(topic, sent) + (cancelling if len(numbers) == 1 else ""))


def _counts(topic: str, counts: Sequence[int]) -> str:
    """To how many subscriptions the messages of a topic go."""
    if len(counts) == 1:
        return f"sent to {output.counted(counts[0], 'subscription')} of {topic}"
    return f"sent {output.counted(len(counts), 'message')} to {topic}: {sum(counts):,} stored"
