"""Histories of two messages of a session that SessionLife.tla has to allow, or to refuse: SessionLifeTrace.tla."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks.chaos.histories import Event, History
from models.table import HERE
from models.traces import Kind, receivers


def _ends(first: str, second: str, events: int) -> Iterator[Event]:
    after = tuple(range(1, events + 1))
    for number, place in enumerate((first, second), 1):
        yield Event("find", message=number, places=(place,), effects=int(place == "gone"), after=after)


_FIRST, _NEXT = Event("deliver", "1", message=1), Event("deliver", "2", message=1, after=(1,))
_DOUBTED = Event("settle", "1", "gone", message=1, has_effect=True, is_in_doubt=True, after=(1,))
_COMPLETED = Event("settle", "2", "gone", message=1, has_effect=True, after=(1, 2))
#: A lock that is lost, and settlements in doubt, of which one was done.
RARE: tuple[History, ...] = (
    (_FIRST, _NEXT, Event("lose", "1", message=1, after=(1, 2)), _COMPLETED, *_ends("gone", "ready", 4)),
    (_FIRST, _DOUBTED, *_ends("gone", "ready", 2)),
    (_FIRST, _DOUBTED, _NEXT, *_ends("ready", "ready", 3)),
)


def falsified(history: History) -> Iterator[History]:
    """Histories with another end, or another order, a settlement or a loss more, or by another holder."""
    events = [event for event in history if event.verb != "find"]
    for place in range(len(events), len(history)):
        end = history[place]
        if not any(event.is_in_doubt and event.message == end.message for event in events):
            there, effects = ("gone", 1) if end.effects == 0 else ("ready", 0)
            yield _put(history, place, replace(end, places=(there,), effects=effects))
    if _comes_first(events):
        yield tuple(replace(event, message=(0, 2, 1)[event.message]) for event in history)
    for place in _settlements(events):
        settled = events[place]
        everything = tuple(range(1, len(events) + 1))
        yield _with(history, replace(settled, after=everything))
        yield _before(history, place, Event("lose", settled.by, message=settled.message, after=settled.after))
        last = next(each for each in events if _receipt(each) == ("deliver", settled.message, settled.by))
        for older in (events[place - 1] for place in last.after):
            if _receipt(older)[:2] == ("deliver", settled.message):
                yield _put(history, place, replace(settled, by=older.by))


def released_before(history: History) -> Iterator[History]:
    """Histories in which the session was released before the last event of the receiver that had it, a settlement.

    A loss is true only by the rule that is left out.
    """
    events = [event for event in history if event.verb != "find"]
    if any(event.verb == "lose" for event in events):
        return
    for place in _settlements(events):
        settled = events[place]
        if not any(later.by == settled.by and later.verb == "deliver" for later in events[place:]):
            yield _before(history, place, Event("release", settled.by, after=settled.after))


def _settlements(events: Sequence[Event]) -> list[int]:
    """The places of the last settlement of each message, unless it is in doubt."""
    last = {event.message: place for place, event in enumerate(events) if event.verb == "settle"}
    return [place for place in last.values() if not events[place].is_in_doubt]


def _receipt(event: Event) -> tuple[str, int, str]:
    return event.verb, event.message, event.by


def _comes_first(events: Sequence[Event]) -> bool:
    """Whether a delivery of the first message had ended before any of the second began."""
    first, second = (
        [(place, e) for place, e in enumerate(events, 1) if (e.verb, e.message) == ("deliver", m)] for m in (1, 2)
    )
    return bool(second) and any(all(place in other.after for _, other in second) for place, _ in first)


def _put(history: History, place: int, event: Event) -> History:
    return (*history[:place], event, *history[place + 1 :])


def _with(history: History, event: Event) -> History:
    """The history with another event before the ends, which all come after it."""
    ends = [each for each in history if each.verb == "find"]
    place = len(history) - len(ends) + 1
    return (*history[: place - 1], event, *(replace(each, after=(*each.after, place)) for each in ends))


def _before(history: History, place: int, event: Event) -> History:
    """The history with another event before the one at a place."""
    added = _with(history, event)
    new = next(nth for nth, each in enumerate(added, 1) if each is event)
    return _put(added, place, replace(added[place], after=(*added[place].after, new)))


def _constants(histories: Sequence[History]) -> str:
    losses = max((sum(event.verb == "lose" for event in history) for history in histories), default=0)
    deliveries = (Counter(event.message for event in history if event.verb == "deliver") for history in histories)
    most = max((max(counts.values(), default=0) for counts in deliveries), default=0)
    return f"Messages={{1, 2}} MaxTokens={len(receivers(histories)) + losses} MaxDeliveries={most} MaxBreaks=0"


SESSIONS = Kind(
    name="histories of sessions",
    module="SessionLife",
    recorded=HERE / "session_histories.jsonl",
    rare=RARE,
    falsified=falsified,
    allowed_without_proof=released_before,
    proof="a settlement proves the session's token",
    constants=_constants,
)
