"""Sends the contents of an outbox to a queue, flush by flush, each a transaction on one connection.

The COMMIT of a flush is sent together with the next flush, and only after the id of its transaction is known. So
nothing is guessed when a connection breaks: without the id, no COMMIT was sent, and nothing is stored; with the id, the
database is asked for the outcome of that transaction. A message takes two round trips, and every round trip carries a
flush.
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

#: Refusals that no single message of a flush is the cause of.
REFUSED_FOR_ALL = (AccessDeniedError, QueueDisabledError, QueueNotFoundError, SchemaVersionError)

INVALID_PARAMETER_VALUE = "22023"


@dataclass(frozen=True)
class OpenTransaction:
    """A portion that is stored, and whose COMMIT has not been sent yet."""

    portion: Portion
    stored: Stored


class Flusher:
    """Sends the contents of an outbox, on a connection that it gives back whenever no send is in flight."""

    def __init__(self, outbox: Outbox, source: Source, policy: tenacity.Retrying) -> None:
        self._outbox = outbox
        self._source = source
        self._policy = policy
        self._line: Line | None = None
        self._held: OpenTransaction | None = None
        self._committing: OpenTransaction | None = None

    def run(self, wait: Step) -> Flow[None]:
        """Runs until the outbox is closed and empty; ``wait`` is the step that waits for work."""
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
        """Reports a COMMIT that may have been sent as in doubt."""
        if self._committing is not None:
            self._outbox.refuse(self._committing.portion, _in_doubt(self._committing, failure))

    def _turn(self, portion: Portion | None) -> Flow[None]:
        """One round trip: commits the open transaction, and stores the next portion."""
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
        """Finds out which sends an error concerns. Uncommitted sends are retried, in smaller portions, or refused."""
        committed = committing is None or (yield from self._is_committed(committing, error))
        its_own_fault = not committed and not isinstance(error, ConnectionLostError)
        if portion is not None and its_own_fault:
            self._outbox.put_back(portion)  # the preceding COMMIT was refused, so it had not begun
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
        """Whether a COMMIT succeeded; settles the portion unless it is to be retried."""
        question = sending.outcome(held.stored)
        try:
            committed = yield from was_committed(held.stored.transaction_id, question, self._source, error)
        except PGQueueError as failure:
            if failure.sqlstate == INVALID_PARAMETER_VALUE:
                return False  # an id in the future: a crash or a failover has forgotten it
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
    doubt = CommitInDoubtError(
        f"the outcome of transaction {held.stored.transaction_id} is not known: look whether its messages are stored;"
        " where duplicates are detected, send them again"
    )
    doubt.__cause__ = cause
    return doubt


def _fewer_may_pass(error: PGQueueError) -> bool:
    """Whether a portion was refused because of some of its messages, or because there are too many."""
    return isinstance(error, QueueFullError) or not (is_transient(error) or isinstance(error, REFUSED_FOR_ALL))
