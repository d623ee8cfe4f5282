"""Emptying an outbox into a queue, flush by flush, each a transaction on one connection.

The COMMIT of a flush is sent only when the id of its transaction has been heard, together with the next flush. So a
connection may break at any time and nothing is guessed: who has heard no id has sent no COMMIT, and nothing is stored;
who has heard it asks the database what became of that transaction. A message takes two round trips, and there is a
flush in every one.
"""

from __future__ import annotations

from dataclasses import dataclass

import tenacity

from pgqueue.errors import (
    AccessDeniedError,
    CommitInDoubtError,
    ConnectionLostError,
    PGQueueError,
    QueueDisabledError,
    QueueFullError,
    QueueNotFoundError,
    SchemaVersionError,
)
from pgqueue.flows import Flow, Line, Pause, Source, Step
from pgqueue.flows.in_doubt import was_committed
from pgqueue.model.policy import Tries, is_transient
from pgqueue.sending.outbox import Outbox, Portion
from pgqueue.statements import sending
from pgqueue.statements.sending import Stored

#: What is refused so is not refused because of one message among many.
REFUSED_FOR_ALL = (AccessDeniedError, QueueDisabledError, QueueNotFoundError, SchemaVersionError)

INVALID_PARAMETER_VALUE = "22023"


@dataclass(frozen=True)
class OpenTransaction:
    """A portion that is stored, and whose COMMIT is not sent yet."""

    portion: Portion
    stored: Stored


class Flusher:
    """Empties an outbox, on a connection that is given back whenever nothing is out."""

    def __init__(self, outbox: Outbox, source: Source, policy: tenacity.Retrying) -> None:
        self._outbox = outbox
        self._source = source
        self._policy = policy
        self._line: Line | None = None
        self._held: OpenTransaction | None = None
        self._committing: OpenTransaction | None = None

    def run(self, wait: Step) -> Flow[None]:
        """Until the outbox is closed and empty; ``wait`` is the step that waits for something to do."""
        try:
            while True:
                portion = self._outbox.take()
                if portion is not None or self._held is not None:
                    yield from self._turn(portion)
                elif self._outbox.is_over:
                    return
                else:
                    yield from self._let_go()
                    yield wait
        except BaseException as failure:
            self._leave_open(failure)
            raise
        finally:
            yield from self._let_go()

    def _leave_open(self, failure: BaseException) -> None:
        """Nobody asks any more about a COMMIT that may have been sent."""
        if self._committing is not None:
            self._outbox.refuse(self._committing.portion, _in_doubt(self._committing, failure))

    def _turn(self, portion: Portion | None) -> Flow[None]:
        """One round trip: commits what is held, and stores the next portion."""
        committing = self._committing = self._held
        self._held = None
        statement = None if portion is None else sending.store(self._outbox.queue, portion.messages)
        try:
            if self._line is None:
                self._line = yield from self._source.line()
            stored = yield from self._line.exchange(statement, commit=committing is not None)
        except PGQueueError as error:
            yield from self._let_go()
            yield from self._recover(committing, portion, error)
            self._committing = None
            return
        if committing is not None:
            self._outbox.accept(committing.portion, committing.stored.numbers)
            self._committing = None
        if portion is not None and stored is not None:
            self._held = OpenTransaction(portion, stored)

    def _recover(self, committing: OpenTransaction | None, portion: Portion | None, error: PGQueueError) -> Flow[None]:
        """Finds out whom an error concerns. What was not committed is tried again, apart, or refused."""
        committed = committing is None or (yield from self._is_committed(committing, error))
        its_own_fault = not committed and not isinstance(error, ConnectionLostError)
        if portion is not None and its_own_fault:
            self._outbox.put_back(portion)  # the COMMIT before it was refused, so it had not even begun
        elif portion is not None:
            yield from self._judge(portion, error)
        if committing is not None and not committed:
            yield from self._judge(committing.portion, error)

    def _judge(self, portion: Portion, error: PGQueueError) -> Flow[None]:
        if len(portion.sends) > 1 and _fewer_may_pass(error):
            self._outbox.put_back(*portion.halves())
            return
        portion.tries = portion.tries or Tries(self._policy)
        pause = portion.tries.pause_after(error)
        if pause is None:
            self._outbox.refuse(portion, error)
        else:
            self._outbox.put_back(portion)
            yield Pause(pause)

    def _is_committed(self, held: OpenTransaction, error: PGQueueError) -> Flow[bool]:
        """Whether a COMMIT went through; settles the portion unless it is to be tried again."""
        question = sending.outcome(held.stored)
        try:
            committed = yield from was_committed(held.stored.transaction_id, question, self._source, error)
        except PGQueueError as failure:
            if failure.sqlstate == INVALID_PARAMETER_VALUE:
                return False  # an id in the future: the server crashed before it wrote it down
            self._outbox.refuse(held.portion, _in_doubt(held, error))
            return True
        if committed:
            self._outbox.accept(held.portion, held.stored.numbers)
        return committed

    def _let_go(self) -> Flow[None]:
        line, self._line = self._line, None
        if line is not None:
            yield from line.release()


def _in_doubt(held: OpenTransaction, cause: BaseException) -> CommitInDoubtError:
    doubt = CommitInDoubtError(f"the outcome of transaction {held.stored.transaction_id} is not known")
    doubt.__cause__ = cause
    return doubt


def _fewer_may_pass(error: PGQueueError) -> bool:
    """Whether a portion is refused because of some of its messages, or because there are too many."""
    return isinstance(error, QueueFullError) or not (is_transient(error) or isinstance(error, REFUSED_FOR_ALL))
