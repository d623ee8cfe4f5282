"""Receivers of queues that require sessions: each works the messages of a session in their order."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import pgqueue
import pgqueue.aio
from benchmarks.chaos.history import Open
from benchmarks.chaos.kinds.acting import Actor, Kind, deliveries, locks
from benchmarks.chaos.kinds.alchemy import Alchemy, TwoPhase
from benchmarks.chaos.kinds.asynchronous import AsyncByHand
from benchmarks.chaos.kinds.receivers import WAIT, Receiver
from benchmarks.chaos.kinds.workers import Threads
from pgqueue import ReceivedMessage, ReceiveState

AT_ONCE = 3
#: So many receives in a session, which is then released.
TURNS = 3


class InSessions(Receiver):
    """Accepts the next session; releases it after a few receives, or once a message is not completed, which no other
    may pass."""

    def step(self) -> None:
        with self.actor.receiving() as operation:
            session = self.queue.accept_session(wait=WAIT)
            operation.facts["deliveries"] = locked(session)
        if session is None:
            return
        held: list[ReceivedMessage] = []
        try:
            for _ in range(TURNS):
                received = self._receive_from(session)
                held += received
                if not all(self._completes(each) for each in received):
                    return
                with renewing(self.actor, session) as operation:
                    operation.facts["until"] = session.renew_lock().timestamp()
        finally:
            with releasing(self.actor, session, held):
                session.release()

    def _receive_from(self, session: pgqueue.Session) -> Sequence[ReceivedMessage]:
        with self.actor.receiving() as operation:
            received = session.receive(max_messages=AT_ONCE)
            operation.facts["deliveries"] = deliveries(received)
        return received

    def _completes(self, received: ReceivedMessage) -> bool:
        self.settle(received)
        return received.resolve() is ReceiveState.COMPLETED


class TwoPhaseInSessions(InSessions, TwoPhase):
    """Two-phase commits of effect, state and completion."""


class AlchemyInSessions(InSessions, Alchemy):
    """A SQLAlchemy session of the caller's."""


class AsyncInSessions(AsyncByHand):
    """The same in an event loop, whose tasks are cancelled at any await."""

    async def act(self) -> None:
        with self.actor.receiving() as operation:
            session = await self.queue.accept_session(wait=WAIT)
            operation.facts["deliveries"] = locked(session)
        if session is None:
            return
        held: list[pgqueue.aio.ReceivedMessage] = []
        try:
            with self.actor.receiving() as operation:
                held += await session.receive(max_messages=AT_ONCE)
                operation.facts["deliveries"] = deliveries(held)
            for each in held:
                await self.perhaps_cancelled(self.complete(each))
                if await each.resolve() is not ReceiveState.COMPLETED:
                    return
        finally:
            with releasing(self.actor, session, held):
                await session.release()


class WorkerOfSessions(Threads):
    """A worker, which accepts the sessions itself."""


def locked(session: pgqueue.Session | pgqueue.aio.Session | None) -> list[tuple[str, str, float, int]]:
    """The lock on a session, as if it were a message: its holders exclude each other in the same way."""
    return [(*lock_of(session), session.locked_until.timestamp(), 1)] if session else []


def lock_of(session: pgqueue.Session | pgqueue.aio.Session) -> tuple[str, str]:
    return f"session {session.session_id} of {session.queue}", str(session.lock.lock_token)


def renewing(actor: Actor, session: pgqueue.Session) -> AbstractContextManager[Open]:
    return actor.operation("settle", how="renew", locks=[lock_of(session)], doubt=True)


def releasing(
    actor: Actor, session: pgqueue.Session | pgqueue.aio.Session, held: Sequence[Any]
) -> AbstractContextManager[Open]:
    """Gives up the locks on the session and on all that was received from it."""
    return actor.operation("settle", how="release", locks=[lock_of(session), *locks(held)], doubt=True)


RECEIVERS: dict[str, type[Kind]] = {
    "session": InSessions,
    "session-two-phase": TwoPhaseInSessions,
    "session-sqlalchemy": AlchemyInSessions,
    "session-async": AsyncInSessions,
    "session-worker": WorkerOfSessions,
}
