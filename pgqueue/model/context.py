"""The state machine of one delivery: WCF 4.0's ReceiveContext.

The table is the rule, and everything is checked against it: this code, ``docs/lifecycle.md`` and the tests. There is
no state for "unlocked": a context exists only for a delivery.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pgqueue.errors import (
    ConnectionLostError,
    FaultedError,
    InvalidStateError,
    MessageAlreadySettledError,
    PGQueueError,
)
from pgqueue.model.calls import finished, must_finish


class Named(Enum):
    """Each member is one object, and hashed as such: Enum hashes its name, in Python, and that is a busy place here."""

    __hash__ = object.__hash__


class ReceiveState(Named):
    """Where a delivery stands."""

    RECEIVED = "received"
    COMPLETING = "completing"
    COMPLETED = "completed"
    ABANDONING = "abandoning"
    ABANDONED = "abandoned"
    FAULTED = "faulted"


class Outcome(Named):
    """How a delivery that is over was settled."""

    COMPLETED = "completed"
    DEAD_LETTERED = "dead-lettered"
    ABANDONED = "abandoned"
    DEFERRED = "deferred"


class Event(Named):
    """What can happen to a delivery: three calls, and two things that become known."""

    COMPLETE = "complete()"
    ABANDON = "abandon()"
    FAULT = "fault()"
    COMMITTED = "the settlement is committed"
    ABORTED = "the settlement is undone"


R, CING, CED, AING, AED, F = ReceiveState
SETTLED, BUSY, IN_DOUBT = MessageAlreadySettledError, InvalidStateError, FaultedError

#: (event) → for each state in order: the next state, or the error that refuses the call.
#: A state that leads to itself means: no effect.
TRANSITIONS: dict[Event, dict[ReceiveState, ReceiveState | type[InvalidStateError]]] = {
    Event.COMPLETE:  {R: CING, CING: BUSY, CED: SETTLED, AING: BUSY, AED: SETTLED, F: IN_DOUBT},
    Event.ABANDON:   {R: AING, CING: BUSY, CED: SETTLED, AING: AING, AED: AED,     F: IN_DOUBT},
    Event.FAULT:     {R: F,    CING: F,    CED: CED,     AING: F,    AED: AED,     F: F},
    Event.COMMITTED: {R: R,    CING: CED,  CED: CED,     AING: AED,  AED: AED,     F: F},
    Event.ABORTED:   {R: R,    CING: R,    CED: R,       AING: R,    AED: AED,     F: F},
}  # fmt: skip

Callback = Callable[[], object]


def was_refused(error: BaseException) -> bool:
    """Whether a statement or a COMMIT that failed so was not carried out; after any other error, nobody knows."""
    return isinstance(error, PGQueueError) and not isinstance(error, ConnectionLostError)


@dataclass
class ReceiveContext:
    """The state of one delivery; racing calls from several threads end in one legal history.

    The callbacks run while the call that causes them is under way: in COMPLETING, in ABANDONING, on the way to
    FAULTED. One that raises faults the context. No lock is held while they run, so they may call back. Those of an
    ``asynchronous`` context are awaited, but for ``on_fault``: :meth:`fault` awaits nothing, and may come from any
    thread.

    ``transaction_id`` is the database's id of the transaction, or of the savepoint in it, that a settlement is part of;
    the database answers with it what became of that when nobody else tells.
    """

    state: ReceiveState = R
    outcome: Outcome | None = None
    transaction_id: str | None = None
    asynchronous: bool = field(default=False, repr=False)
    _callbacks: dict[Event, list[Callback]] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    _call: object = field(default=None, repr=False, compare=False)

    @property
    def is_in_doubt(self) -> bool:
        """Whether a settlement has begun, its call is over, and nobody has said yet what became of it."""
        return self.state in (CING, AING) and self._call is None

    def on_complete(self, callback: Callback) -> Callback:
        """Registers a callback that runs when the delivery is being completed, before the database is asked.

        Raises:
            InvalidArgumentError: it is a generator function, or a coroutine function outside of ``pgqueue.aio``.
        """
        must_finish(callback, "the callback", asynchronous=self.asynchronous)
        return self._register(Event.COMPLETE, callback)

    def on_abandon(self, callback: Callback) -> Callback:
        """Registers a callback that runs when the delivery is being abandoned, before the database is asked.

        Raises:
            InvalidArgumentError: as for :meth:`on_complete`.
        """
        must_finish(callback, "the callback", asynchronous=self.asynchronous)
        return self._register(Event.ABANDON, callback)

    def on_fault(self, callback: Callback) -> Callback:
        """Registers a callback that runs once at the most, when the delivery is faulted, and is never awaited.

        Raises:
            InvalidArgumentError: it is a coroutine function or a generator function.
        """
        must_finish(callback, "the callback", asynchronous=False, remedy="give a function that starts a task of yours")
        return self._register(Event.FAULT, callback)

    def apply(self, event: Event, call: object = None) -> bool:
        """Takes the transition of an event; False when it has no effect. ``call`` is the call that settles from now on.

        Raises:
            InvalidStateError: the event is a call that is illegal in this state. The state did not change.
        """
        with self._lock:
            following = TRANSITIONS[event][self.state]
            if isinstance(following, type):
                raise following(f"{event.value} is illegal once the delivery is {self.state.value}")
            changed = following is not self.state
            if event is Event.ABORTED and changed:
                self.outcome = None
                self.transaction_id = None
            self.state = following
            if changed:
                self._call = call
        return changed

    def retract(self) -> None:
        """Takes back that the settlement is committed: that was announced, and then the COMMIT was not answered."""
        with self._lock:
            if self.state is CED:
                self.state = CING

    def enter(self, event: Event, outcome: Outcome, call: object = None) -> Generator[Callback, Any, bool]:
        """Takes the transition of ``complete()`` or ``abandon()``; False: nothing is to be done.

        Its callbacks are the steps of this flow, so that they are awaited where somebody awaits. ``call`` stands for
        the call that does it: that is under way until the outcome is known or it is passed to :meth:`end` or
        :meth:`fail`. A dead-lettering and a deferral are completions with another outcome, and call nobody back.
        """
        if not self.apply(event, call):
            return False
        self.outcome = outcome
        if outcome in (Outcome.COMPLETED, Outcome.ABANDONED):
            try:
                for callback in self._callbacks.get(event, ()):
                    finished((yield callback))
            except BaseException:
                self.fault()
                raise
        return True

    def end(self, call: object) -> None:
        """A call is over; what it did has an outcome when the caller's transaction has one."""
        with self._lock:
            if self._call is call:
                self._call = None

    def fail(self, call: object, error: BaseException) -> None:
        """A call has failed. What was refused is undone; what was only interrupted may have been carried out."""
        if self._call is call and was_refused(error):
            self.apply(Event.ABORTED)
        self.end(call)

    def fault(self) -> None:
        """Puts the delivery in doubt. Does no I/O: an abandon or a completion under way may still win."""
        if self.apply(Event.FAULT):
            for callback in self._callbacks.get(Event.FAULT, ()):
                finished(callback())

    def lose(self) -> None:
        """A renewal found the lock lost: faults, unless a settlement has begun, which finds out what became of it."""
        if self.state is R:
            self.fault()

    def require(self, call: str, *legal: ReceiveState) -> None:
        """Refuses a call that is legal in these states only."""
        refusal = TRANSITIONS[Event.COMPLETE][self.state]
        if self.state not in legal:
            kind = refusal if isinstance(refusal, type) else InvalidStateError
            raise kind(f"{call} is illegal once the delivery is {self.state.value}")

    def _register(self, event: Event, callback: Callback) -> Callback:
        self._callbacks.setdefault(event, []).append(callback)
        return callback
