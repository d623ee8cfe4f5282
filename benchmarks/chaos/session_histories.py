"""The histories of two messages of a session, one sent after the other: models/SessionLifeTrace.tla."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf

from benchmarks.chaos.deeds import Deeds, Delivery, Send, Settlement
from benchmarks.chaos.evidence import Evidence
from benchmarks.chaos.histories import LEADS_TO, Event, History, Timed, ordered, settled
from benchmarks.chaos.history import Outcome

#: The places in the model of a row in the database; and those that a settlement leads to, by those in Life.tla.
PLACES = {"waiting": ("ready", "delayed", "deferred")}
SETTLED = {"gone": "gone", "ready": "ready", "scheduled": "delayed", "deferred": "deferred"}
#: Of the session's lock, or of a message that keeps it.
OTHERS = ("fault", "release", "renew")
#: Histories of more events are left out: TLC takes long, and most of these are deliveries that led to nothing.
LONGEST = 14


def histories(deeds: Deeds, evidence: Evidence) -> Iterator[History]:
    """The histories of neighbours in their sessions: without a failover that loses commits."""
    for one, other in () if deeds.losses else _neighbours(deeds):
        if (history := _history(one, other, deeds, evidence)) is not None and len(history) <= LONGEST:
            yield history


def _neighbours(deeds: Deeds) -> Iterator[tuple[Send, Send]]:
    by_session: dict[tuple[str, str], list[Send]] = defaultdict(list)
    for send in deeds.sends.values():
        if send.session and send.operation.outcome is Outcome.OK and not send.operation.facts.get("scheduled"):
            by_session[send.session].append(send)
    for sends in by_session.values():
        for one, other in pairwise(sends):
            if one.operation.ended < other.operation.invoked and other.operation.ended < deeds.first_rewind:
                yield one, other


def _history(one: Send, other: Send, deeds: Deeds, evidence: Evidence) -> History | None:
    """The history of both; None if something was done that the model does not have."""
    receivers: dict[str, str] = {}  # by the token of the session's lock
    events: list[Timed] = []
    for number, message in enumerate((one.message, other.message), 1):
        done = deeds.settlements.get(message, ())
        life = _Life(
            number,
            deeds.deliveries.get(message, []),
            [each for each in done if each.how not in OTHERS],
            evidence.effects.get(message, ()),
            [row.place for row in evidence.by_message.get(message, ())],
        )
        if not life.is_modelled:
            return None
        events += life.events(receivers)
    _, session = one.session or ("", "")
    lock = deeds.settlements.get(f"session {session} of {one.operation.queue}", ())
    events += (_released(each, receivers) for each in lock if each.how == "release" and each.token in receivers)
    return ordered(events)


@dataclass(frozen=True)
class _Life:
    """All that was recorded of one of the messages."""

    number: int
    deliveries: Sequence[Delivery]
    settlements: Sequence[Settlement]
    attempts: Sequence[str]
    places: Sequence[str]

    @property
    def is_modelled(self) -> bool:
        """Whether each was delivered once by a holder of the session, and settled by itself, and none is dead."""
        tokens = [each.token for each in self.deliveries]
        return (
            len({*tokens}) == len(tokens)
            and all(_is_single(each) and LEADS_TO[each.how] in SETTLED for each in self.settlements)
            and {each.operation.name for each in self.settlements}.issuperset(self.attempts)
            and PLACES.keys() >= {*self.places}
        )

    def events(self, receivers: dict[str, str]) -> Iterator[Timed]:
        """A delivery that was not recorded came before its settlement ended."""
        for delivery in self.deliveries:
            # A worker has taken a message ahead when its handler sees it.
            began = -inf if delivery.operation.facts.get("noted") else delivery.operation.invoked
            yield self._timed(Event("deliver", _name(receivers, delivery.token)), began, delivery.operation.ended)
        tokens = {each.token for each in self.deliveries}
        for token, settlement in {each.token or "": each for each in reversed(self.settlements)}.items():
            if token not in tokens:
                yield self._timed(Event("deliver", _name(receivers, token)), -inf, settlement.operation.ended)
        for settlement in self.settlements:
            by = receivers[settlement.token or ""]
            if event := Event("lose", by) if _is_lost(settlement) else settled(settlement, by, self.attempts):
                is_open = settlement.outcome is Outcome.UNKNOWN and not settlement.is_done
                event = replace(event, to=SETTLED.get(event.to, ""))
                yield self._timed(event, settlement.operation.invoked, inf if is_open else settlement.operation.ended)
        places = PLACES[self.places[0]] if self.places else ("gone",)
        yield self._timed(Event("find", places=places, effects=len(self.attempts)), inf, inf)

    def _timed(self, event: Event, began: float, ended: float) -> Timed:
        return Timed(replace(event, message=self.number), began, ended)


def _released(settlement: Settlement, receivers: dict[str, str]) -> Timed:
    """The session's lock that its holder gave up, or may have."""
    is_open = settlement.outcome is not Outcome.OK
    event = Event("release", receivers[settlement.token or ""], is_in_doubt=is_open)
    return Timed(event, settlement.operation.invoked, inf if is_open else settlement.operation.ended)


def _is_single(settlement: Settlement) -> bool:
    """Whether a message was settled by itself, under a lock."""
    return settlement.token is not None and len(settlement.operation.facts["locks"]) == 1


def _is_lost(settlement: Settlement) -> bool:
    """Whether it was refused, since the lock is another's."""
    error = str(settlement.operation.facts.get("error"))
    return settlement.outcome is Outcome.FAIL and error.startswith(("LockLostError", "SessionLockLostError"))


def _name(receivers: dict[str, str], token: str) -> str:
    return receivers.setdefault(token, str(len(receivers) + 1))
