"""Whether Life.tla allows what receivers have recorded, and refuses it once it is falsified: LifeTrace.tla."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.chaos.histories import Event, History
from models.table import HERE
from models.tlc import model_check

#: Recorded by `python -m benchmarks.chaos --histories models/histories.jsonl`.
RECORDED = HERE / "histories.jsonl"


def falsified(history: History) -> Iterator[History]:
    """Histories that never were: with another end, and with settlements and losses that were not reported."""
    *events, end = history
    yield (*events, replace(end, effects=end.effects + 1))
    if not any(event.is_in_doubt for event in events):
        yield (*events, replace(end, places=("ready",) if "gone" in end.places else ("gone",)))
    last = max((place for place, event in enumerate(events, 1) if event.verb == "settle"), default=0)
    if not last or events[last - 1].is_in_doubt:
        return
    settled = events[last - 1]
    again = replace(settled, after=tuple(range(1, len(events) + 1)))
    yield (*events, again, replace(end, after=(*end.after, len(history))))
    delivered = {event.by: place for place, event in enumerate(events, 1) if event.verb == "deliver"}
    for other, place in delivered.items():
        if 0 < events[place - 1].count < events[delivered[settled.by] - 1].count:
            yield (*events[: last - 1], replace(settled, by=other), *events[last:], end)
    lost = Event("lose", settled.by, after=(delivered[settled.by],))
    events[last - 1] = replace(settled, after=(*settled.after, len(history)))
    yield (*events, lost, replace(end, after=(*end.after, len(history))))


def refused(recorded: Collection[History]) -> list[History]:
    """Those of the histories that the model does not allow. Runs TLC once.

    Raises
    ------
    RuntimeError
        TLC came to no verdict; the text is all its output.
    """
    distinct = list(dict.fromkeys(recorded))
    receivers = max((len({event.by for event in history}) for history in distinct), default=0)
    names = ", ".join(f'"{name}"' for name in ("unheard", *map(str, range(1, receivers + 1))))
    histories = ",\n".join(f"<<{', '.join(map(_record, history))}>>" for history in distinct)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        (scratch / "Histories.tla").write_text(f"---- MODULE Histories ----\nHistories == <<\n{histories}>>\n====\n")
        (scratch / "trace.cfg").write_text(
            f"SPECIFICATION TraceSpec\nINVARIANT Accepted\nCONSTANTS Receivers={{{names}}} Messages={{1}}\n"
            f"MaxDeliveries=1000 MaxTokens={receivers + 4} MaxCrashes=0 Broken={{}}\n"
        )
        for module in ("Life.tla", "LifeTrace.tla"):
            (scratch / module).write_text((HERE / module).read_text())
        output = model_check(scratch, scratch / "trace.cfg", "LifeTrace")
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
