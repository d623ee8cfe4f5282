"""Errors as an exit code and one line with a remedy."""

from __future__ import annotations

import errno
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import typer

from pgqueue import errors
from pgqueue.cli.exit_codes import FAILED, INTERRUPTED, WRONG_USE

#: Typer shows BadParameter alone; its ancestors are click's, whichever click it carries.
UsageError, CommandLineError = typer.BadParameter.__mro__[1:3]

REMEDIES: dict[type[Exception], str] = {
    errors.QueueNotFoundError: "`pgqueue queue list` shows the queues, `pgqueue queue create` makes one",
    errors.QueueAlreadyExistsError: "change it with `pgqueue queue update`, or use --exist-ok",
    errors.QueueDisabledError: "`pgqueue queue update QUEUE --status ACTIVE` opens it",
    errors.MessageSizeExceededError: "send less, or raise the bound with `pgqueue queue update QUEUE --max-message-size"
    " SIZE`",
    errors.QueueFullError: "try again when some were received, or raise the bound with `pgqueue queue update QUEUE"
    " --max-queue-length NUMBER`",
    errors.ScheduleNotFoundError: "`pgqueue schedule list` shows the schedules, `pgqueue schedule create` makes one",
    errors.ScheduleAlreadyExistsError: "delete it with `pgqueue schedule delete`, or use --exist-ok",
    errors.TopicNotFoundError: "`pgqueue topic list` shows the topics, `pgqueue topic create` makes one",
    errors.TopicAlreadyExistsError: "choose another name, or use --exist-ok",
    errors.RuleNotFoundError: "`pgqueue rule list TOPIC SUBSCRIPTION` shows the rules",
    errors.RuleAlreadyExistsError: "change it with `pgqueue rule update`, or use --exist-ok",
    errors.NoSubscriptionError: "`pgqueue subscription list TOPIC` shows the filters",
    errors.MessageNotFoundError: "nothing was changed; `pgqueue explain QUEUE NUMBER` shows where it is",
    errors.OperationTimeoutError: "try again",
    errors.TransactionConflictError: "try again",
    errors.AccessDeniedError: "use a role that may, or ask the owner of the schema",
}

#: Those of errors about a subscription.
ON_SUBSCRIPTIONS: dict[type[Exception], str] = {
    errors.QueueNotFoundError: "`pgqueue subscription list TOPIC` shows the subscriptions,"
    " `pgqueue subscription create` makes one",
    errors.QueueAlreadyExistsError: "change it with `pgqueue subscription update`, or use --exist-ok",
}

#: Those of errors about a topic itself.
ON_TOPICS: dict[type[Exception], str] = {
    errors.QueueDisabledError: "`pgqueue topic update TOPIC --status ACTIVE` opens it",
    errors.MessageNotFoundError: "nothing was cancelled",
}

#: Where the advice for those who write SQL or Python begins; what names nothing of either is for all.
ADVICE = re.compile(r"\. |: create it with")
FOR_PROGRAMS = re.compile(r'\b(client|pgqueue)\.|"\.|: create it with|_')

#: Placeholders in a remedy, and where the text of the error names their values.
NAMES = {
    "QUEUE": re.compile(r'\bqueue "?([\w./-]*\w)'),
    "TOPIC": re.compile(r'\b(?:topic|queue) "?([\w./-]*?\w)(?=/Subscriptions/|[^\w./-]|$)'),
    "NUMBER": re.compile(r"\bmessage (\d+)"),
}

#: A name is that of a queue and should be that of a topic, or the other way round.
TAKEN = ", and cannot be "
MISTAKEN = {
    "It is a queue": "it is a queue: `pgqueue send QUEUE BODY` sends to it",
    "It is a topic": "it is a topic: `pgqueue send --topic TOPIC BODY` sends to it, `pgqueue subscription list TOPIC`"
    " shows what receives from it",
    "is reserved for subscriptions": "choose another name, or use `pgqueue subscription create`",
}

OF_SUBSCRIPTION = re.compile(r"/subscriptions/", re.IGNORECASE)
GRANT = re.compile(r"client\.grant_(\w+)\(((?:'(?:[^']|'')*'(?:, )?)+)\)")
ARGUMENT = re.compile(r"'((?:[^']|'')*)'")

#: Texts of the server or libpq about a connection, and their remedies.
REFUSALS = {
    "password authentication failed": "is the password right?",
    "no password supplied": "put one into the DSN, PGPASSWORD or ~/.pgpass",
    'database ".*" does not exist': "create it with `createdb`, or name another in the DSN",
    'role ".*" does not exist': "create it with `createuser`, or name another in the DSN",
    "": "is the server running, and is the DSN right?",
}


class WrongUse(Exception):
    """The command line is invalid."""


class Failed(Exception):
    """The command could not do its work, although its command line is valid."""


@dataclass(frozen=True)
class Failure:
    """How a failed command ends: its exit code and a line with the reason."""

    exit_code: int
    line: str


Kinds = type[BaseException] | tuple[type[BaseException], ...]


def failure_of(error: BaseException) -> Failure:
    """The exit code and the line for an error. An unexpected error is reported as a bug.

    An error that is raised while an interrupt propagates counts as the interrupt.
    """
    if any(isinstance(cause, KeyboardInterrupt) for cause in _history(error)):
        return Failure(INTERRUPTED, "")
    for kinds, exit_code, text_of in ERROR_FORMATS:
        if isinstance(error, kinds):
            return Failure(exit_code, one_line(text_of(error)))
    return Failure(FAILED, one_line(f"unexpected {type(error).__name__}: {error} (a bug of pgqueue: please report it)"))


def _history(error: BaseException | None) -> list[BaseException]:
    """An error, and the errors that were being handled when it was raised, back to the first; they may form a ring."""
    history: list[BaseException] = []
    while error is not None and error not in history:
        history.append(error)
        error = error.__cause__ or error.__context__
    return history


def one_line(text: str) -> str:
    return " ".join(text.split())


def _of_command_line(error: Any) -> str:
    """The text of click, and where to read more; empty if no command was given, as the help is printed already."""
    text = str(error.format_message()).rstrip(".").replace("Value error, ", "")
    context = getattr(error, "ctx", None)
    hint = f"; see `{context.command_path} --help`" if text and context is not None else ""
    return text[:1].lower() + text[1:] + hint


@contextmanager
def binding(port: int, option: str) -> Iterator[None]:
    """Name the option to change when a port is taken."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise Failed(f"port {port} is taken: choose another with {option}, or 0 for any that is free") from error


def _of_input(error: OSError) -> str:
    return f"{error.filename or 'input or output'}: {error.strerror or error}"


def _with_remedy(error: errors.PGQueueError) -> str:
    text = str(error.args[0])
    remedy = next((REMEDIES[kind] for kind in type(error).__mro__ if kind in REMEDIES), None)
    if TAKEN in text:
        remedy = "choose another name"
    if text.startswith("topic "):
        remedy = ON_TOPICS.get(type(error), remedy)
    elif OF_SUBSCRIPTION.search(text):
        remedy = ON_SUBSCRIPTIONS.get(type(error), remedy)
    remedy = next((advised for mistake, advised in MISTAKEN.items() if mistake in text), remedy)
    advice = ADVICE.search(text)
    if remedy is None or (advice and not FOR_PROGRAMS.search(text, advice.start())):
        return text
    for placeholder, name in NAMES.items():
        if named := name.search(text):
            remedy = remedy.replace(placeholder, named[1])
    return f"{ADVICE.split(text)[0].rstrip('.')}: {remedy}"


def _of_rights(error: errors.AccessDeniedError) -> str:
    text = str(error.args[0])
    what, _, advice = text.partition(". ")
    if not GRANT.search(advice):
        return _with_remedy(error)
    return f"{what}: {advice[:1].lower()}{GRANT.sub(_granting, advice[1:]).rstrip('.')}"


def _granting(granted: re.Match[str]) -> str:
    arguments = " ".join(shlex.quote(each.replace("''", "'")) for each in ARGUMENT.findall(granted[2]))
    return f"`pgqueue grant {granted[1]} {arguments}`"


def _of_connection(error: errors.ConnectionLostError) -> str:
    text = str(error.args[0])
    return f"{text.rstrip('.')}: {next(remedy for pattern, remedy in REFUSALS.items() if re.search(pattern, text))}"


def _of_schema(error: errors.SchemaVersionError) -> str:
    """The database missed something that a current schema has, or the library has refused a schema it does not know."""
    missed = "the pgqueue schema is missing in this database, or too old: run `pgqueue migrate`"
    return missed if error.sqlstate is not None else str(error.args[0])


#: Errors, their exit codes and their texts; the first that fits counts.
ERROR_FORMATS: tuple[tuple[Kinds, int, Callable[[Any], str]], ...] = (
    ((KeyboardInterrupt, typer.Abort), INTERRUPTED, lambda _: ""),
    (WrongUse, WRONG_USE, str),
    (UsageError, WRONG_USE, _of_command_line),
    (CommandLineError, FAILED, _of_command_line),
    (errors.InvalidArgumentError, WRONG_USE, _with_remedy),
    (errors.SchemaVersionError, FAILED, _of_schema),
    (errors.AccessDeniedError, FAILED, _of_rights),
    (errors.ConnectionLostError, FAILED, _of_connection),
    (errors.PGQueueError, FAILED, _with_remedy),
    (Failed, FAILED, str),
    (OSError, FAILED, _of_input),
    (psycopg.Error, FAILED, lambda error: f"the database refused: {error}"),
)
