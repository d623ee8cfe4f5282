"""The state machine of one delivery: WCF 4.0's ReceiveContext.

The transition table is the source: this code, ``docs/lifecycle.md`` and the tests are checked against it. There is no
state for "unlocked": a context exists only for a delivery.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from enum import Enum
from typing import Any

from pgqueue.errors import (
    ConnectionLostError,
    FaultedError,
    InvalidStateError,
    MessageAlreadySettledError,
    PGQueueError,
    SettlementUndoneError,
    logger,
)
from pgqueue.model.calls import checked_result, must_finish


class Named(Enum):
    """Hashes members by identity: Enum hashes their names, in Python, which is slow where messages are handled."""

    __hash__ = object.__hash__


class ReceiveState(Named):
    """The state of a delivery."""

    RECEIVED = "received"
    COMPLETING = "completing"
    COMPLETED = "completed"
    ABANDONING = "abandoning"
    ABANDONED = "abandoned"
    FAULTED = "faulted"


class Outcome(Named):
    """How a delivery was settled."""

    COMPLETED = "completed"
    DEAD_LETTERED = "dead-lettered"
    ABANDONED = "abandoned"
    DEFERRED = "deferred"

    @property
    def event(self) -> Event:
        """The event of the state machine that leads to this outcome."""
        return Event.ABANDON if self is Outcome.ABANDONED else Event.COMPLETE


class Event(Named):
    """The events of a delivery: three calls, and the two results of a settlement."""

    COMPLETE = "complete()"
    ABANDON = "abandon()"
    FAULT = "fault()"
    COMMITTED = "the settlement is committed"
    ABORTED = "the settlement is undone"


RECEIVED, COMPLETING, COMPLETED, ABANDONING, ABANDONED, FAULTED = ReceiveState
IN_PROGRESS = COMPLETING, ABANDONING
_SETTLED, _BUSY, _IN_DOUBT = MessageAlreadySettledError, InvalidStateError, FaultedError

#: For each event, and each state in the order of :class:`ReceiveState`: the next state, or the error that refuses the
#: call. If a state leads to itself, the event has no effect.
_NEXT: dict[Event, tuple[ReceiveState | type[InvalidStateError], ...]] = {
    Event.COMPLETE:  (COMPLETING, _BUSY,     _SETTLED,  _BUSY,      _SETTLED,  _IN_DOUBT),
    Event.ABANDON:   (ABANDONING, _BUSY,     _SETTLED,  ABANDONING, ABANDONED, _IN_DOUBT),
    Event.FAULT:     (FAULTED,    FAULTED,   COMPLETED, FAULTED,    ABANDONED, FAULTED),
    Event.COMMITTED: (RECEIVED,   COMPLETED, COMPLETED, ABANDONED,  ABANDONED, FAULTED),
    Event.ABORTED:   (RECEIVED,   RECEIVED,  RECEIVED,  RECEIVED,   ABANDONED, FAULTED),
}  # fmt: skip

TRANSITIONS = {event: dict(zip(ReceiveState, following, strict=True)) for event, following in _NEXT.items()}

UNDONE = "the work has settled the message in a transaction that was rolled back, and has raised no error"

Callback = Callable[[], object]


def was_refused(error: BaseException) -> bool:
    """Whether this error proves that the statement or COMMIT was not carried out; after any other, it is unknown."""
    return isinstance(error, PGQueueError) and not isinstance(error, ConnectionLostError)


#: Held during a transition, never while anything is called or awaited. One lock for all contexts is cheaper than one
#: each. It is reentrant, because a signal handler may interrupt a transition and settle another message.
_TRANSITION = threading.RLock()


def _reset_after_fork() -> None:
    global _TRANSITION  # noqa: PLW0603 - another thread of the parent may have held it
    _TRANSITION = threading.RLock()


os.register_at_fork(after_in_child=_reset_after_fork)


class TransactionId(str):
    """PostgreSQL's id of a transaction or savepoint; after a crash or a failover it may be given out again.

    ``server_run`` is what ``pgqueue.server_run()`` returned in that transaction.
    """

    __slots__ = ("server_run",)

    server_run: str | None

    def __new__(cls, text: str, server_run: str | None = None) -> TransactionId:
        """Create the id; a string takes its text in ``__new__``."""
        self = super().__new__(cls, text)
        self.server_run = server_run
        return self


class ReceiveContext:
    """The state of one delivery; racing calls from several threads end in one legal history.

    Callbacks run during the call that causes them: in COMPLETING, in ABANDONING, or on the way to FAULTED. A callback
    that raises faults the context. No lock is held while a callback runs, so it may call the context. Callbacks of an
    ``asynchronous`` context are awaited, except ``on_fault``: :meth:`fault` awaits nothing, and may be called from any
    thread.

    ``transaction_id`` is the database's id of the transaction, or of the savepoint in it, that a settlement is part of.
    If nothing else reports the outcome, the database is asked with this id. ``transaction`` is the caller's
    transaction, if any; it can be asked while it is open. ``pinned_in`` is the id of the transaction that the library
    began for this delivery, while that is open. ``was_undone`` is whether a settlement has been undone since the work
    on the message began.
    """

    __slots__ = (
        "_call",
        "_callbacks",
        "asynchronous",
        "outcome",
        "pinned_in",
        "state",
        "transaction",
        "transaction_id",
        "was_undone",
    )

    def __init__(self, state: ReceiveState = RECEIVED, *, asynchronous: bool = False) -> None:
        self.state = state
        self.outcome: Outcome | None = None
        self.transaction_id: TransactionId | None = None
        self.transaction: Any = None
        self.pinned_in: TransactionId | None = None
        self.was_undone = False
        self.asynchronous = asynchronous
        self._callbacks: dict[Event, list[Callback]] | None = None
        self._call: object = None

    def __repr__(self) -> str:
        return f"ReceiveContext(state={self.state}, outcome={self.outcome}, transaction_id={self.transaction_id!r})"

    @property
    def is_in_doubt(self) -> bool:
        """Whether a settlement has begun and its call is over, but its outcome is not known yet."""
        return self.state in IN_PROGRESS and self._call is None

    @property
    def is_untouched(self) -> bool:
        """Whether the delivery goes on, and nothing has settled it since the work on the message began."""
        return self.state is RECEIVED and not self.was_undone

    @property
    def calls_back(self) -> bool:
        """Whether a callback runs before the delivery is settled."""
        return self._callbacks is not None and (Event.COMPLETE in self._callbacks or Event.ABANDON in self._callbacks)

    @property
    def may_refuse_completion(self) -> bool:
        """Whether a callback runs before the delivery is completed; it may raise."""
        return self._callbacks is not None and Event.COMPLETE in self._callbacks

    def on_complete(self, callback: Callback) -> Callback:
        """Registers a callback that runs when the delivery is being completed, before the database is called.

        Raises:
            InvalidArgumentError: it is a generator function, or a coroutine function outside of ``pgqueue.aio``.
        """
        must_finish(callback, "the callback", asynchronous=self.asynchronous)
        return self._register(Event.COMPLETE, callback)

    def on_abandon(self, callback: Callback) -> Callback:
        """Registers a callback that runs when the delivery is being abandoned, before the database is called.

        Raises:
            InvalidArgumentError: as for :meth:`on_complete`.
        """
        must_finish(callback, "the callback", asynchronous=self.asynchronous)
        return self._register(Event.ABANDON, callback)

    def on_fault(self, callback: Callback) -> Callback:
        """Registers a callback that runs at most once, when the delivery is faulted, and is never awaited.

        Raises:
            InvalidArgumentError: it is a coroutine function or a generator function.
        """
        must_finish(callback, "the callback", asynchronous=False, remedy="give a function that starts a task of yours")
        return self._register(Event.FAULT, callback)

    def apply(self, event: Event, call: object = None) -> bool:
        """Makes the transition of an event; returns False when it has no effect. ``call`` is the call that now settles.

        Raises:
            InvalidStateError: the event is a call that is illegal in this state. The state did not change.
        """
        with _TRANSITION:
            return self._apply(event, call)

    def _apply(self, event: Event, call: object) -> bool:
        following = TRANSITIONS[event][self.state]
        if following is self.state:
            return False
        if isinstance(following, type):
            raise following(f"{event.value} is illegal once the delivery is {self.state.value}")
        if event is Event.ABORTED:
            self.outcome = None
            self.transaction_id = None
            self.was_undone = True
        self.state = following
        self._call = call
        return True

    def retract(self) -> None:
        """Goes back from COMPLETED to COMPLETING: the COMMIT had been announced, but was not confirmed."""
        with _TRANSITION:
            if self.state is COMPLETED:
                self.state = COMPLETING

    def begin(self, outcome: Outcome, call: object = None) -> bool:
        """Makes the transition of ``complete()`` or ``abandon()``; returns False when nothing is to be done.

        ``call`` identifies the call: it is in progress until the outcome is known, or until it is passed to :meth:`end`
        or :meth:`fail`.
        """
        if not self.apply(outcome.event, call):
            return False
        self.outcome = outcome
        return True

    def call_back(self, outcome: Outcome) -> Generator[Callback, Any, None]:
        """Runs the callbacks of a completion or an abandonment.

        Each callback is a step of this flow, so an asynchronous driver awaits it. Dead-lettering and deferring are
        completions with another outcome, and have no callbacks.
        """
        if outcome in (Outcome.COMPLETED, Outcome.ABANDONED):
            try:
                for callback in self._called_back(outcome.event):
                    checked_result((yield callback))
            except BaseException:
                self.fault_and_log()
                raise

    def enter(self, outcome: Outcome, call: object = None) -> Generator[Callback, Any, bool]:
        """Begins a settlement and runs its callbacks; returns False when nothing is to be done."""
        begun = self.begin(outcome, call)
        if begun and self.calls_back:
            yield from self.call_back(outcome)
        return begun

    def end(self, call: object) -> None:
        """Notes that a call is over; the outcome of its settlement may still depend on the caller's transaction."""
        with _TRANSITION:
            if self._call is call:
                self._call = None

    def fail(self, call: object, error: BaseException) -> None:
        """Notes that a call has failed: a refused call is undone; an interrupted one may have been carried out."""
        if self._call is call and was_refused(error):
            self.apply(Event.ABORTED)
        self.end(call)

    def fault(self) -> None:
        """Puts the delivery in doubt, without I/O; an abandon or a completion in progress may still succeed.

        All callbacks run, even when one raises; the first error is raised afterwards.
        """
        failure: Exception | None = None
        for callback in self._called_back(Event.FAULT) if self.apply(Event.FAULT) else ():
            try:
                checked_result(callback())
            except Exception as error:  # noqa: BLE001 - a callback of the application may raise anything
                failure = failure or error
        if failure is not None:
            raise failure

    def fault_and_log(self) -> None:
        """Faults because of what has happened to the lock, and logs what a callback raises."""
        try:
            self.fault()
        except Exception:  # noqa: BLE001 - a callback of the application may raise anything
            logger.exception("an on_fault callback has failed")

    def lose(self) -> None:
        """Faults after a renewal found the lock lost, unless a settlement has begun; that learns the outcome itself."""
        if self.state is RECEIVED:
            self.fault_and_log()

    def require(self, call: str, *legal: ReceiveState) -> None:
        """Refuses a call unless the state is one of these."""
        refusal = TRANSITIONS[Event.COMPLETE][self.state]
        if self.state not in legal:
            kind = refusal if isinstance(refusal, type) else InvalidStateError
            raise kind(f"{call} is illegal once the delivery is {self.state.value}")

    @property
    def is_undone(self) -> bool:
        """Whether the work has settled the message, this was undone, and nothing has settled it since."""
        return self.was_undone and self.state is RECEIVED

    def refuse_undone(self) -> None:
        """Refuse to complete a message whose settlement by the work was undone: the work is undone with it.

        Raises:
            SettlementUndoneError: it was.
        """
        if self.is_undone:
            raise SettlementUndoneError(UNDONE)

    def _called_back(self, event: Event) -> Sequence[Callback]:
        return () if self._callbacks is None else self._callbacks.get(event, ())

    def _register(self, event: Event, callback: Callback) -> Callback:
        if self._callbacks is None:
            self._callbacks = {}
        self._callbacks.setdefault(event, []).append(callback)
        return callback


def begin_all(contexts: Iterable[ReceiveContext], outcome: Outcome, call: object) -> list[bool | InvalidStateError]:
    """Call :meth:`ReceiveContext.begin` on each; the answers are what it returns or raises."""
    answers: list[bool | InvalidStateError] = []
    event = outcome.event
    with _TRANSITION:
        for context in contexts:
            try:
                begun = context._apply(event, call)  # noqa: SLF001 - a function beside its class
            except InvalidStateError as refusal:
                answers.append(refusal)
            else:
                if begun:
                    context.outcome = outcome
                answers.append(begun)
    return answers


def apply_all(contexts: Iterable[ReceiveContext], event: Event) -> None:
    """Call :meth:`ReceiveContext.apply` on each, with an event that no state refuses."""
    with _TRANSITION:
        for context in contexts:
            context._apply(event, None)  # noqa: SLF001 - a function beside its class


def call_on_fault(context: ReceiveContext, callback: Callback) -> None:
    """Register an :meth:`ReceiveContext.on_fault` callback of the library's own, without the check."""
    context._register(Event.FAULT, callback)  # noqa: SLF001 - a function beside its class
