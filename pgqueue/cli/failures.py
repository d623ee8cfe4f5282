"""Errors as an exit code and one line that says what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
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
    errors.QueueAlreadyExistsError: "change it with `pgqueue queue update`, or say --exist-ok",
    errors.QueueDisabledError: "`pgqueue queue update NAME --status ACTIVE` opens it",
    errors.MessageSizeExceededError: "send less, or raise the bound with `pgqueue queue update --max-message-size`",
    errors.QueueFullError: "try again when some were received, or raise the bound with `pgqueue queue update"
    " --max-queue-length`",
    errors.ScheduleNotFoundError: "`pgqueue schedule list` shows the schedules, `pgqueue schedule create` makes one",
    errors.ScheduleAlreadyExistsError: "delete it with `pgqueue schedule delete`, or say --exist-ok",
    errors.TopicNotFoundError: "`pgqueue topic list` shows the topics, `pgqueue topic create` makes one",
    errors.TopicAlreadyExistsError: "choose another name, or say --exist-ok",
    errors.NoSubscriptionError: "`pgqueue subscription list TOPIC` shows the filters",
    errors.MessageNotFoundError: "nothing was changed; `pgqueue peek` shows what is scheduled and what is deferred",
    errors.ConnectionLostError: "is the server running, and is the DSN right?",
    errors.OperationTimeoutError: "try again",
    errors.TransactionConflictError: "try again",
    errors.AccessDeniedError: "use a role that may, or ask whoever owns the schema",
}

#: Where the advice for those who write SQL or Python begins.
ADVICE = re.compile(r"\. |: create it with")


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
    for kinds, exit_code, tell in TOLD:
        if isinstance(error, kinds):
            return Failure(exit_code, one_line(tell(error)))
    return Failure(FAILED, one_line(f"unexpected {type(error).__name__}: {error} (a bug of pgqueue: please report it)"))


def _history(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and the errors that were being handled when it was raised, back to the first."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def one_line(text: str) -> str:
    return " ".join(text.split())


def _of_command_line(error: Any) -> str:
    """What click says, and where to read more. Asked for nothing, it has shown the help and says no more."""
    text = str(error.format_message()).rstrip(".").replace("Value error, ", "")
    context = getattr(error, "ctx", None)
    hint = f"; see `{context.command_path} --help`" if text and context is not None else ""
    return text[:1].lower() + text[1:] + hint


def _of_input(error: OSError) -> str:
    return f"{error.filename or 'input or output'}: {error.strerror or error}"


def _with_remedy(error: errors.PGQueueError) -> str:
    text = str(error.args[0])
    remedy = next((REMEDIES[kind] for kind in type(error).__mro__ if kind in REMEDIES), None)
    if remedy is None:
        return text
    return f"{ADVICE.split(text)[0].rstrip('.')}: {remedy}"


def _of_schema(error: errors.SchemaVersionError) -> str:
    """The database missed something that a current schema has, or the library has refused a schema it does not know."""
    missed = "the pgqueue schema is missing in this database, or too old: run `pgqueue migrate`"
    return missed if error.sqlstate is not None else str(error.args[0])


#: Which errors mean what, and how each is told; the first that fits counts.
TOLD: tuple[tuple[Kinds, int, Callable[[Any], str]], ...] = (
    ((KeyboardInterrupt, typer.Abort), INTERRUPTED, lambda _: ""),
    (WrongUse, WRONG_USE, str),
    (UsageError, WRONG_USE, _of_command_line),
    (CommandLineError, FAILED, _of_command_line),
    (errors.InvalidArgumentError, WRONG_USE, lambda error: str(error.args[0])),
    (errors.SchemaVersionError, FAILED, _of_schema),
    (errors.PGQueueError, FAILED, _with_remedy),
    (Failed, FAILED, str),
    (OSError, FAILED, _of_input),
    (psycopg.Error, FAILED, lambda error: f"the database refused: {error}"),
)
