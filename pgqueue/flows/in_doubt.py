"""The outcome of a COMMIT whose answer was lost: the database is asked, nothing is guessed."""

from __future__ import annotations

import time
from datetime import timedelta

from pgqueue.errors import CommitInDoubtError, PGQueueError
from pgqueue.flows.flow import Executor, Flow, Pause
from pgqueue.model.backoff import polls_within
from pgqueue.statements import Statement

#: How long the database is asked before the outcome is left in doubt.
COMMIT_OUTCOME_TIMEOUT = timedelta(seconds=15)


def was_committed(transaction_id: str, question: Statement[str], source: Executor, error: Exception) -> Flow[bool]:
    """Ask for the outcome of a transaction whose COMMIT raised an error, until the transaction is over.

    Raises:
        CommitInDoubtError: the database did not answer in time, or does not know the outcome.
        PGQueueError: the database refused the statement that asks.
    """
    ends_at = (yield time.monotonic) + COMMIT_OUTCOME_TIMEOUT.total_seconds()
    for pause in polls_within(COMMIT_OUTCOME_TIMEOUT):
        left = ends_at - (yield time.monotonic)
        if left <= 0:
            break
        try:
            answer = yield from source.execute(question.within(left))
        except PGQueueError as failure:
            if not failure.is_transient:
                raise
        else:
            if answer in ("committed", "aborted"):
                return answer == "committed"
            if answer != "in progress":
                break
        yield Pause(pause)
    raise CommitInDoubtError(
        f"the outcome of transaction {transaction_id} is not known: resolve() of its messages asks again"
    ) from error
