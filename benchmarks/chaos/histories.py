"""The histories of messages, as models of their lives have them: models/LifeTrace.tla. Those of sessions are in
session_histories.py."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from benchmarks.chaos.deeds import Deeds, Settlement
from benchmarks.chaos.evidence import Evidence
from benchmarks.chaos.history import Outcome
from benchmarks.chaos.plan import LOCK_SECONDS

#: Where a settlement leads to in the model.
LEADS_TO = {
    "complete": "gone",
    "abandon": "ready",
    "abandon later": "scheduled",
    "defer": "deferred",
    "dead_letter": "dead",
}
#: The places in the model of a row in the database: what is due may not have been moved yet.
PLACES = {"waiting": ("ready", "scheduled", "deferred"), "scheduled": ("ready", "scheduled"), "dead": ("dead",)}


@dataclass(frozen=True)
class Event:
    """An event of a message, or of one of those that a history is of; ``after`` are those, by their places in the
    history, that had ended when it began."""

    verb: str
    by: str = ""
    to: str = ""
    message: int = 0
    count: int = 0
    has_effect: bool = False
    is_in_doubt: bool = False
    places: tuple[str, ...] = ()
    effects: int = 0
    after: tuple[int, ...] = ()


History = tuple[Event, ...]


@dataclass(frozen=True)
class Timed:
    """An event, and the time between which it happened."""

    event: Event
    began: float
    ended: float


def histories(deeds: Deeds, evidence: Evidence) -> dict[str, History]:
    """The history of each message that the model has: without sessions, purges, lossy failovers, or a sequence set
    back."""
    if deeds.losses or deeds.rewinds:
        return {}
    away = {each.queue for each in (*deeds.wipes, *deeds.lost_takes)}
    return {
        message: history
        for message, send in deeds.sends.items()
        if send.session is None and send.operation.queue not in away
        if (history := _history(message, deeds, evidence)) is not None
    }


def _history(message: str, deeds: Deeds, evidence: Evidence) -> History | None:
    settlements = [each for each in deeds.settlements.get(message, ()) if each.how not in ("fault", "release")]
    attempts, rows = evidence.effects.get(message, ()), evidence.by_message.get(message, [])
    known = {each.operation.name for each in settlements}
    if not settlements or not known.issuperset(attempts) or any(each.token is None for each in settlements):
        return None
    receivers: dict[str, str] = {}  # by token; each was locked before it was handed out, but less than a lock's time
    timed = []
    for delivery in deeds.deliveries.get(message, ()):
        if delivery.token not in receivers:
            receivers[delivery.token] = by = str(len(receivers) + 1)
            event = Event("deliver", by, count=delivery.count)
            timed.append(Timed(event, delivery.operation.invoked - LOCK_SECONDS, delivery.operation.ended))
    for each in settlements:
        token = each.token or ""
        if token not in receivers:
            receivers[token] = by = str(len(receivers) + 1)
            timed.append(Timed(Event("deliver", by), -inf, each.operation.ended))
        if event := settled(each, receivers[token], attempts):
            is_open = each.outcome is Outcome.UNKNOWN and not each.is_done
            timed.append(Timed(event, each.operation.invoked, inf if is_open else each.operation.ended))
    places = PLACES[rows[0].place] if rows else ("gone",)
    timed.append(Timed(Event("find", places=places, effects=len(attempts)), inf, inf))
    return ordered(timed)


def settled(settlement: Settlement, by: str, attempts: Sequence[str]) -> Event | None:
    """The event of a settlement; None for one that has changed nothing."""
    is_there = settlement.operation.name in attempts
    is_lost = settlement.outcome is Outcome.FAIL and settlement.operation.outcome is Outcome.OK
    in_doubt = not settlement.is_done and not settlement.is_undone
    if is_lost:
        return Event("lose", by)
    if settlement.is_undone or (in_doubt and settlement.effect and not is_there):
        return None
    if settlement.how == "renew":
        return None if in_doubt else Event("renew", by)
    return Event(
        "settle", by, LEADS_TO[settlement.how], has_effect=settlement.effect, is_in_doubt=in_doubt and not is_there
    )


def ordered(timed: Iterable[Timed]) -> History:
    """The history of events, each with those that come before it."""
    timed = sorted(timed, key=lambda each: (each.began, each.event.verb))

    def before(each: Timed) -> tuple[int, ...]:
        return tuple(place for place, other in enumerate(timed, 1) if other is not each and _precedes(other, each))

    return tuple(replace(each.event, after=before(each)) for each in timed)


def _precedes(one: Timed, other: Timed) -> bool:
    """Whether it had ended when the other began, or is its delivery; in the end all is found."""
    if other.event.verb == "find":
        return one.event.verb != "find"
    is_its_delivery = one.event.verb == "deliver" and _receipt(one.event) == _receipt(other.event)
    return one.ended < other.began or is_its_delivery


def _receipt(event: Event) -> tuple[str, int]:
    return event.by, event.message


def load(path: Path) -> list[History]:
    """The histories in a file, a line for each."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [tuple(Event(**_hashable(event)) for event in json.loads(line)) for line in lines]


def add(path: Path, recorded: Iterable[History]) -> None:
    """Add histories to a file that has one of each course."""
    lines = (json.dumps([_short(event) for event in history]) for history in of_each_course([*load(path), *recorded]))
    path.write_text("".join(f"{line}\n" for line in sorted(lines)))


def of_each_course(histories: Iterable[History]) -> list[History]:
    """The first of those that differ in nothing but what is known of the order of their events."""
    by_course: dict[History, History] = {}
    for history in histories:
        by_course.setdefault(tuple(replace(event, after=()) for event in history), history)
    return list(by_course.values())


def _short(event: Event) -> dict[str, Any]:
    return {name: value for name, value in asdict(event).items() if value}


def _hashable(event: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in event.items()}
