"""Whether Life.tla allows what receivers have recorded, and refuses it once it is falsified: LifeTrace.tla."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.chaos.histories import Event, History
from models.table import HERE
from models.tlc import jar, program

#: Recorded by `make chaos HISTORIES=models/histories.jsonl`.
RECORDED = HERE / "histories.jsonl"


def _end(place: str, events: int) -> Event:
    return Event("find", places=(place,), after=tuple(range(1, events + 1)))


_FIRST, _SECOND = Event("deliver", "1", count=1), Event("deliver", "2", count=2, after=(1,))
#: Rare ones, by hand: a lock that is lost, and settlements in doubt, of which one was done.
RARE: tuple[History, ...] = (
    (_FIRST, _SECOND, Event("lose", "1", after=(1, 2)), Event("settle", "2", "gone", after=(2,)), _end("gone", 4)),
    (_FIRST, Event("settle", "1", "dead", is_in_doubt=True, after=(1,)), _end("dead", 2)),
    (_FIRST, Event("settle", "1", "dead", is_in_doubt=True, after=(1,)), _SECOND, _end("ready", 3)),
)

#: Without this rule the model accepts a settlement with an older lock.
PROOF = "a settlement proves the token"


def falsified(history: History) -> Iterator[History]:
    """Histories that did not happen: with another end, a settlement or a loss more, or a delivery of what is dead."""
    *events, end = history
    yield (*events, replace(end, effects=end.effects + 1))
    if not any(event.is_in_doubt for event in events):
        yield (*events, replace(end, places=("ready",) if "gone" in end.places else ("gone",)))
    if (last := _last_settlement(events)) is None:
        return
    settled, delivery = events[last], _delivery(events, events[last].by)
    everything = tuple(range(1, len(events) + 1))
    late = replace(end, after=(*everything, len(history)))
    yield (*events, replace(settled, after=everything), late)
    lost = Event("lose", settled.by, after=(delivery + 1,))
    yield (*events[:last], replace(settled, after=(*settled.after, len(history))), *events[last + 1 :], lost, late)
    if settled.to == "dead":
        again = Event("deliver", "again", count=events[delivery].count + 1, after=everything)
        done = Event("settle", "again", "gone", after=(*everything, len(history)))
        gone = _end("gone", len(history) + 1)
        yield (*events, again, done, replace(gone, effects=end.effects))


def with_older_locks(history: History) -> Iterator[History]:
    """Histories in which the last settlement is by the receiver of an earlier delivery."""
    *events, end = history
    if (last := _last_settlement(events)) is None:
        return
    delivered = events[_delivery(events, events[last].by)]
    for event in events:
        if event.verb == "deliver" and 0 < event.count < delivered.count:
            yield (*events[:last], replace(events[last], by=event.by), *events[last + 1 :], end)


def _last_settlement(events: Sequence[Event]) -> int | None:
    """The place of the last settlement; None if there is none, or it is in doubt."""
    places = [place for place, event in enumerate(events) if event.verb == "settle"]
    return places[-1] if places and not events[places[-1]].is_in_doubt else None


def _delivery(events: Sequence[Event], by: str) -> int:
    return next(place for place, event in enumerate(events) if event.verb == "deliver" and event.by == by)


def refused(recorded: Collection[History], *, without: str = "") -> list[History]:
    """Those of the histories that the model, or its twin without a rule, does not allow. Runs TLC once.

    Raises
    ------
    RuntimeError
        TLC came to no verdict; the text is all its output.
    """
    distinct = list(dict.fromkeys(recorded))
    receivers = sorted({event.by for history in distinct for event in history} | {"unheard"})
    tokens = max((len(history) + max(event.count for event in history) for history in distinct), default=0)
    names, broken = (", ".join(f'"{name}"' for name in each if name) for each in (receivers, [without]))
    histories = ",\n".join(f"<<{', '.join(map(_record, history))}>>" for history in distinct)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        (scratch / "Histories.tla").write_text(f"---- MODULE Histories ----\nHistories == <<\n{histories}>>\n====\n")
        (scratch / "trace.cfg").write_text(
            f"SPECIFICATION TraceSpec\nINVARIANT Accepted\nCONSTANTS Receivers={{{names}}} Messages={{1}}\n"
            f"MaxDeliveries=1000 MaxTokens={tokens} MaxCrashes=0 Broken={{{broken}}}\n"
        )
        for module in ("Life.tla", "LifeTrace.tla"):
            (scratch / module).write_text((HERE / module).read_text())
        command = [program(), "-cp", jar(), "tlc2.TLC", "-deadlock", "-config", "trace.cfg", "LifeTrace.tla"]
        output = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False).stdout
    if "No error has been found" not in output:
        raise RuntimeError(f"TLC came to no verdict\n{output}")
    accepted = {int(number) for number in re.findall(r'<<"accepted", (\d+)>>', output)}
    return [history for place, history in enumerate(distinct, 1) if place not in accepted]


def _record(event: Event) -> str:
    places = ", ".join(f'"{place}"' for place in event.places)
    return (
        f'[verb |-> "{event.verb}", by |-> "{event.by}", to |-> "{event.to}", count |-> {event.count},'
        f" hasEffect |-> {str(event.has_effect).upper()}, isInDoubt |-> {str(event.is_in_doubt).upper()},"
        f" places |-> {{{places}}}, effects |-> {event.effects}, after |-> {{{', '.join(map(str, event.after))}}}]"
    )
