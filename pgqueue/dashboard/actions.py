"""The actions of users: each first shows how many messages it concerns, and leaves an entry in the audit log."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal

from pydantic import AwareDatetime, BaseModel, Field

from pgqueue.dashboard.database import Rows
from pgqueue.errors import InvalidArgumentError
from pgqueue.model.json_text import decode
from pgqueue.model.names import dead_letter_queue

#: The most messages that one action concerns.
MOST = 10_000

Name = Literal["send", "resubmit", "purge", "unlock", "cancel", "reschedule", "pause", "resume"]
Number = Annotated[int, Field(ge=0, le=2**63 - 1)]


class Request(BaseModel):
    """An action on a queue or its messages."""

    action: Name
    queue: str
    numbers: list[Number] = Field(
        [], max_length=1000, description="Sequence numbers; without any, the filters select the messages."
    )
    reason: str | None = Field(None, description="Only dead letters with this reason.")
    older_than_hours: int | None = Field(None, ge=0, le=10_000, description="Only dead letters that are older.")
    at: AwareDatetime | None = Field(None, description="The new time of a scheduled message.")
    body: str | None = Field(None, max_length=1_000_000, description="The JSON body of a message to send.")
    subject: str | None = Field(None, max_length=1000)
    dead: bool = Field(False, description="Unlock a dead letter, not a message of the queue.")
    at_most: int = Field(MOST, ge=1, le=MOST, description="How many messages it may concern.")

    @property
    def older_than(self) -> timedelta | None:
        """The age of dead letters as the database takes it."""
        return None if self.older_than_hours is None else timedelta(hours=self.older_than_hours)

    @property
    def number(self) -> int:
        """The one message that it is about."""
        if len(self.numbers) != 1:
            raise InvalidArgumentError(f"{self.action} concerns one message: give one number, not {len(self.numbers)}")
        return self.numbers[0]

    def details(self) -> dict[str, object]:
        """The entry in the audit log; it records that a body was sent, but not the body."""
        return self.model_dump(mode="json", exclude={"action", "queue", "body", "at_most"}, exclude_defaults=True)


@dataclass(frozen=True)
class Action:
    """How an action is called, whether it can be undone, and what it does."""

    title: str
    #: The text of the confirmation; `{}` is how many messages it concerns.
    question: str
    done: str
    act: Callable[[Rows, Request], int]
    is_final: bool = False


SELECTED: Final = """queue = %(queue)s and (%(numbers)s::bigint[] is null or sequence_number = any (%(numbers)s))
   and (%(reason)s::text is null or dead_letter_reason = %(reason)s)
   and (%(older_than)s::interval is null or dead_lettered_at <= pgqueue.clock() - %(older_than)s)"""
COUNT: Final = f"select count(*) from (select from pgqueue.dead_letters where {SELECTED} limit {MOST}) as found"
RESUBMIT: Final = """
select count(*) from pgqueue.resubmit(%(queue)s, %(numbers)s, %(reason)s, %(older_than)s, %(at_most)s)
"""
PURGE: Final = """
select count(*) from pgqueue.purge_dead_letters(%(queue)s, %(numbers)s, %(reason)s, %(older_than)s, %(at_most)s)
"""


def concerns(rows: Rows, request: Request) -> int:
    """How many messages an action would concern now."""
    if request.action in {"resubmit", "purge"}:
        return int(rows.value(COUNT, **_selection(request)))
    if request.action in {"pause", "resume"}:
        return 0
    return len(request.numbers) or 1


def perform(rows: Rows, request: Request) -> int:
    """Do it and record it, in the transaction that is given. Returns how many messages it concerned."""
    number = ACTIONS[request.action].act(rows, request)
    rows.value(
        "select pgqueue.record_action(%(action)s, %(queue)s, %(messages)s, %(details)s)",
        action=request.action,
        queue=request.queue,
        messages=number or None,
        details=json.dumps(request.details()),
    )
    return number


def _selection(request: Request) -> dict[str, object]:
    return {
        "queue": request.queue,
        "numbers": request.numbers or None,
        "reason": request.reason or None,
        "older_than": request.older_than,
        "at_most": request.at_most,
    }


def _send(rows: Rows, request: Request) -> int:
    try:
        decode(request.body or "")
    except ValueError as error:
        raise InvalidArgumentError(f"the body must be JSON: {error}") from None
    rows.value(
        "select pgqueue.send(%(queue)s, %(body)s::jsonb, subject => %(subject)s)",
        queue=request.queue,
        body=request.body,
        subject=request.subject or None,
    )
    return 1


def _resubmit(rows: Rows, request: Request) -> int:
    return int(rows.value(RESUBMIT, **_selection(request)))


def _purge(rows: Rows, request: Request) -> int:
    return int(rows.value(PURGE, **_selection(request)))


def _unlock(rows: Rows, request: Request) -> int:
    queue = dead_letter_queue(request.queue) if request.dead else request.queue
    rows.value("select pgqueue.unlock(%(queue)s, %(number)s)", queue=queue, number=request.number)
    return 1


def _cancel(rows: Rows, request: Request) -> int:
    if not request.numbers:
        raise InvalidArgumentError("cancel concerns scheduled messages: give their numbers")
    statement = "select pgqueue.cancel_scheduled(%(queue)s, %(numbers)s)"
    return int(rows.value(statement, queue=request.queue, numbers=request.numbers))


def _reschedule(rows: Rows, request: Request) -> int:
    at: datetime | None = request.at
    if at is None:
        raise InvalidArgumentError("reschedule needs the new time: give at")
    statement = "select pgqueue.reschedule(%(queue)s, %(number)s, %(at)s)"
    rows.value(statement, queue=request.queue, number=request.number, at=at)
    return 1


def _pause(rows: Rows, request: Request) -> int:
    rows.value("select pgqueue.pause_queue(%(queue)s)", queue=request.queue)
    return 0


def _resume(rows: Rows, request: Request) -> int:
    rows.value("select pgqueue.resume_queue(%(queue)s)", queue=request.queue)
    return 0


ACTIONS: Final[dict[str, Action]] = {
    "send": Action("Send a test message", "Send {} to", "sent", _send),
    "resubmit": Action("Resubmit dead letters", "Give {} back to", "resubmitted", _resubmit),
    "purge": Action("Purge dead letters", "Delete {} of", "deleted", _purge, is_final=True),
    "unlock": Action("Unlock a message", "Take the lock away from {} of", "unlocked", _unlock),
    "cancel": Action("Cancel scheduled messages", "Delete {} before the time has come, of", "cancelled", _cancel, True),
    "reschedule": Action("Reschedule a message", "Give another time to {} of", "rescheduled", _reschedule),
    "pause": Action("Pause the queue", "Hand out nothing until it is resumed, from", "paused", _pause),
    "resume": Action("Resume the queue", "Hand out messages again, from", "resumed", _resume),
}
