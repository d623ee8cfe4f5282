"""The operations of a round, by message: its sends, deliveries, settlements, renewals and wipes. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from math import inf

from benchmarks.chaos.history import Operation, Outcome
from benchmarks.chaos.plan import LOCK_SECONDS

#: Settlements after which a message is not delivered again.
FINAL = ("complete", "dead_letter", "take")

#: Classes of SQLSTATEs of a wrong program, as opposed to a machine, a network or a rival in its way.
SURPRISING = ("22", "23", "25", "42", "XX")
#: A prepared transaction that was left, and decided by another session.
NOT_SURPRISING = "42704"


@dataclass(frozen=True)
class Send:
    message: str
    operation: Operation

    @property
    def session(self) -> tuple[str, str] | None:
        """Queue and session, where the message has one."""
        session = self.operation.facts.get("session")
        return (self.operation.queue, session) if session else None


@dataclass(frozen=True)
class Delivery:
    """A lock that a receiver was given, until then by the queue's clock."""

    message: str
    token: str
    count: int
    until: float
    operation: Operation


@dataclass(frozen=True)
class Settlement:
    """An attempt to settle a delivery. ``state`` is the library's, afterwards; ``effect`` is whether the same
    transaction writes one. A message that was taken out by a transacted receive has no token."""

    message: str
    token: str | None
    how: str
    effect: bool
    outcome: Outcome
    state: str | None
    operation: Operation

    @property
    def is_done(self) -> bool:
        """Whether the library reports it as done."""
        return self.state == "completed" if self.state else self.outcome is Outcome.OK

    @property
    def is_undone(self) -> bool:
        """Whether the library reports it as not done, or as undone."""
        return self.state == "received" if self.state else self.outcome is Outcome.FAIL


@dataclass
class Deeds:
    """Everything that was done, by message. ``wipes`` are purges and drops; ``steps`` are those of the clock, and
    ``rewinds`` those of the sequence of numbers."""

    sends: dict[str, Send] = field(default_factory=dict)
    deliveries: dict[str, list[Delivery]] = field(default_factory=lambda: defaultdict(list))
    settlements: dict[str, list[Settlement]] = field(default_factory=lambda: defaultdict(list))
    wipes: list[Operation] = field(default_factory=list)
    steps: list[Operation] = field(default_factory=list)
    rewinds: list[Operation] = field(default_factory=list)
    losses: list[Operation] = field(default_factory=list)
    lost_takes: list[Operation] = field(default_factory=list)
    surprises: list[Operation] = field(default_factory=list)

    @property
    def first_rewind(self) -> float:
        """When the sequence of numbers went back first; infinite if it never did."""
        return min((each.invoked for each in self.rewinds), default=inf)


def tell(operations: Iterable[Operation]) -> Deeds:
    deeds = Deeds()
    told = list(operations)
    deeds.losses = losses = [each for each in told if each.verb == "forget"]
    for operation in (_as_remembered(each, losses) for each in told):
        sqlstate = str(operation.facts.get("sqlstate"))
        if operation.verb == "surprise" or (sqlstate.startswith(SURPRISING) and sqlstate != NOT_SURPRISING):
            deeds.surprises.append(operation)
        if operation.verb in TELLERS:
            TELLERS[operation.verb](deeds, operation)
    for deliveries in deeds.deliveries.values():
        deliveries.sort(key=lambda each: (each.count, each.operation.ended))
    return deeds


def _as_remembered(operation: Operation, losses: list[Operation]) -> Operation:
    """The operation as a failover leaves it: of unknown outcome if it may be forgotten, and such locks hold nothing.

    Outcomes that are known after the failover count in full. Two may have been known before: that of an overlapped
    send, which is read later, and that of a settlement without an effect, for which any other that completes the
    message will do.
    """
    facts = operation.facts
    for loss in losses:
        known_late = facts.get("overlapped") or (operation.verb == "settle" and not facts.get("effect"))
        ended = facts.get("answered", operation.ended)
        if loss.invoked <= ended and (operation.invoked if known_late else ended) <= loss.ended:
            facts = {
                **facts,
                "forgotten": True,
                "states": [None if each == "completed" else each for each in facts.get("states") or ()],
            }
            operation = replace(
                operation,
                outcome=Outcome.UNKNOWN if operation.outcome is Outcome.OK else operation.outcome,
                facts=facts,
            )
        since, until = (LOCK_SECONDS + moment for moment in loss.facts["locked_between"])
        if "deliveries" in facts:
            kept = [delivery for delivery in facts["deliveries"] if not since <= delivery[2] <= until]
            operation = replace(operation, facts={**facts, "deliveries": kept})
    return operation


def _send(deeds: Deeds, operation: Operation) -> None:
    for message in operation.facts["ids"]:
        deeds.sends[message] = Send(message, operation)


def _receive(deeds: Deeds, operation: Operation) -> None:
    for message, token, until, count in operation.facts.get("deliveries", ()):
        deeds.deliveries[message].append(Delivery(message, token, count, until, operation))


def _settle(deeds: Deeds, operation: Operation) -> None:
    for settlement in _settlements(operation):
        deeds.settlements[settlement.message].append(settlement)


def _wipe(deeds: Deeds, operation: Operation) -> None:
    deeds.wipes.append(operation)


def _step(deeds: Deeds, operation: Operation) -> None:
    deeds.steps.append(operation)


def _rewind(deeds: Deeds, operation: Operation) -> None:
    deeds.rewinds.append(operation)


def _settlements(operation: Operation) -> Iterable[Settlement]:
    facts = operation.facts
    states = facts.get("states") or [None] * len(facts["locks"])
    for (message, token), state in zip(facts["locks"], states, strict=True):
        yield Settlement(
            message=message,
            token=token,
            how=facts["how"],
            effect=facts.get("effect", False),
            outcome=Outcome.FAIL if state == "lost" else operation.outcome,
            state=None if state == "lost" else state,
            operation=operation,
        )


def _take(deeds: Deeds, operation: Operation) -> None:
    effect = operation.facts.get("effect", False)
    for message in operation.facts.get("ids", ()):
        taken = Settlement(message, None, "take", effect, operation.outcome, None, operation)
        deeds.settlements[message].append(taken)
    if not effect and operation.outcome is Outcome.UNKNOWN and "ids" not in operation.facts:
        deeds.lost_takes.append(operation)


TELLERS: dict[str, Callable[[Deeds, Operation], None]] = {
    "send": _send,
    "receive": _receive,
    "settle": _settle,
    "take": _take,
    "purge": _wipe,
    "drop": _wipe,
    "clock": _step,
    "rewind": _rewind,
}
