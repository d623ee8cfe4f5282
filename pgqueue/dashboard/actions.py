"""The actions of users: each first shows how many messages it concerns, and leaves an entry in the audit log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Final, Literal, LiteralString

from pydantic import AwareDatetime, BaseModel, Field

from pgqueue.dashboard.database import Rows
from pgqueue.errors import InvalidArgumentError
from pgqueue.model.json_text import decode
from pgqueue.model.names import dead_letter_queue

#: The most messages that one action concerns.
MOST = 10_000

Name = Literal[
    "send", "resubmit", "purge", "unlock", "cancel", "reschedule", "delete", "stop", "move", "pause", "resume"
]  # fmt: skip
Number = Annotated[int, Field(ge=0, le=2**63 - 1)]


class Request(BaseModel):
    """An action on a queue or its messages."""

    action: Name
    queue: str
    numbers: list[Number] = Field(
        [], max_length=1000, description="Sequence numbers; without any, the filters select the messages."
    )
    reason: str | None = Field(
        None, description="Only dead letters with this reason; why a message is cancelled that is being worked on."
    )
    older_than_hours: int | None = Field(None, ge=0, le=10_000, description="Only dead letters that are older.")
    at: AwareDatetime | None = Field(None, description="The new time of a scheduled message.")
    body: str | None = Field(None, max_length=1_000_000, description="The JSON body of a message to send.")
    subject: str | None = Field(None, max_length=1000)
    to: str | None = Field(None, max_length=1000, description="The queue to which messages are moved.")
    dead: bool = Field(False, description="Unlock a dead letter, not a message of the queue.")
    at_most: int = Field(MOST, ge=1, le=MOST, description="How many messages it may concern.")

    @property
    def older_than(self) -> timedelta | None:
        """The age of dead letters as the database takes it."""
        return None if self.older_than_hours is None else timedelta(hours=self.older_than_hours)

    def details(self) -> dict[str, object]:
        """The entry in the audit log; it records that a body was sent, but not the body."""
        return self.model_dump(mode="json", exclude={"action", "queue", "body", "at_most"}, exclude_defaults=True)


@dataclass(frozen=True)
class Action:
    """How an action is called, and whether it can be undone."""

    title: str
    #: The text of the confirmation; `{}` is how many messages it concerns.
    question: str
    done: str
    is_final: bool = False


ACTIONS: Final[dict[Name, Action]] = {
    "send": Action("Send a test message", "Send {} to", "sent"),
    "resubmit": Action("Resubmit dead letters", "Give {} back to", "resubmitted"),
    "purge": Action("Purge dead letters", "Delete {} of", "deleted", is_final=True),
    "unlock": Action("Unlock a message", "Take the lock away from {} of", "unlocked"),
    "cancel": Action("Cancel scheduled messages", "Delete {} before the time has come, of", "cancelled", is_final=True),
    "reschedule": Action("Reschedule a message", "Give another time to {} of", "rescheduled"),
    "delete": Action("Delete messages", "Delete {} of", "deleted", is_final=True),
    "stop": Action(
        "Cancel a message", "Take {} from its holder, never to be delivered again, out of", "cancelled", is_final=True
    ),
    "move": Action("Move messages", "Move {} of", "moved"),
    "pause": Action("Pause the queue", "Hand out nothing until it is resumed, from", "paused"),
    "resume": Action("Resume the queue", "Hand out messages again, from", "resumed"),
}

DEAD_LETTERS: Final = "%(queue)s, %(numbers)s, %(reason)s, %(older_than)s, %(at_most)s"

#: The statement of each action; it returns how many messages it concerned.
STATEMENTS: Final[dict[Name, LiteralString]] = {
    "send": "select count(*) from pgqueue.send(%(queue)s, %(body)s::jsonb, subject => %(subject)s)",
    "resubmit": f"select count(*) from pgqueue.resubmit({DEAD_LETTERS})",
    "purge": f"select count(*) from pgqueue.purge_dead_letters({DEAD_LETTERS})",
    "unlock": "select count(*) from pgqueue.unlock(%(locked_in)s, %(number)s)",
    "cancel": "select pgqueue.cancel_scheduled(%(queue)s, %(numbers)s)",
    "reschedule": "select count(*) from pgqueue.reschedule(%(queue)s, %(number)s, %(at)s)",
    "delete": "select pgqueue.delete_messages(%(queue)s, %(numbers)s)",
    "stop": "select pgqueue.cancel(%(queue)s, %(number)s, %(reason)s)::integer",
    "move": "select pgqueue.move_messages(%(queue)s, %(numbers)s, %(to)s)",
    "pause": "select 0 from pgqueue.pause_queue(%(queue)s)",
    "resume": "select 0 from pgqueue.resume_queue(%(queue)s)",
}

COUNT: Final = f"""
select count(*)
  from (select
          from pgqueue.dead_letters
         where queue = %(queue)s and (%(numbers)s::bigint[] is null or sequence_number = any (%(numbers)s))
           and (%(reason)s::text is null or dead_letter_reason = %(reason)s)
           and (%(older_than)s::interval is null or dead_lettered_at <= pgqueue.clock() - %(older_than)s)
         limit {MOST}) as found
"""


def concerns(rows: Rows, request: Request) -> int:
    """How many messages an action would concern now."""
    if request.action in {"resubmit", "purge"}:
        return int(rows.value(COUNT, **_parameters(request)))
    if request.action in {"pause", "resume"}:
        return 0
    return len(request.numbers) or 1


def perform(rows: Rows, request: Request) -> int:
    """Do it and record it, in the transaction that is given. Returns how many messages it concerned."""
    _check(request)
    number = int(rows.value(STATEMENTS[request.action], **_parameters(request)))
    rows.value(
        "select pgqueue.record_action(%(action)s, %(queue)s, %(messages)s, %(details)s)",
        action=request.action,
        queue=request.queue,
        messages=number or None,
        details=json.dumps(request.details()),
    )
    return number


def _check(request: Request) -> None:
    """Refuse an action that lacks what it needs."""
    if request.action in {"unlock", "reschedule", "stop"} and len(request.numbers) != 1:
        raise InvalidArgumentError(
            f"{request.action} concerns one message: give one number, not {len(request.numbers)}"
        )
    if request.action in {"cancel", "delete", "move"} and not request.numbers:
        which = "scheduled messages" if request.action == "cancel" else "messages"
        raise InvalidArgumentError(f"{request.action} concerns {which}: give their numbers")
    if request.action == "move" and not request.to:
        raise InvalidArgumentError("move needs the other queue: give to")
    if request.action == "reschedule" and request.at is None:
        raise InvalidArgumentError("reschedule needs the new time: give at")
    if request.action == "send":
        try:
            decode(request.body or "")
        except ValueError as error:
            raise InvalidArgumentError(f"the body must be JSON: {error}") from None


def _parameters(request: Request) -> dict[str, object]:
    """The parameters of all actions; an empty text of a form is none."""
    return {
        "queue": request.queue,
        "numbers": request.numbers or None,
        "number": next(iter(request.numbers), None),
        "locked_in": dead_letter_queue(request.queue) if request.dead else request.queue,
        "reason": request.reason or None,
        "older_than": request.older_than,
        "at_most": request.at_most,
        "at": request.at,
        "body": request.body,
        "subject": request.subject or None,
        "to": request.to,
    }
