"""``python -m benchmarks.performance``: draws the pictures and writes the tables of docs/performance.md.

Both are made from the results of the benchmarks. The text between two marks, ``<!-- begin NAME -->`` and
``<!-- end NAME -->``, is replaced.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.drawing import Bar, Line, bars, lines
from benchmarks.peers import ratios, tables
from benchmarks.peers.systems import BY_NAME, PGQUEUE
from benchmarks.peers.workloads import WORKLOADS
from benchmarks.report import filled
from benchmarks.scaling.__main__ import table as scaling_table
from benchmarks.scaling.measurements import Axis

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "performance.md"
PICTURES = ROOT / "docs" / "pictures"
#: Workloads whose rates are drawn as bars.
BARS = ("W1", "W2", "W3", "W5")
AXES = ("waiting", "consumers", "queues")


def main() -> None:
    peers = json.loads((RESULTS / "peers.json").read_text())
    scaling = json.loads((RESULTS / "scaling.json").read_text())
    axes = {name: _axis(axis) for name, axis in zip(AXES, scaling["axes"], strict=True)}
    PICTURES.mkdir(exist_ok=True)
    for name, picture in (_of_peers(peers["results"]) | _of_axes(axes)).items():
        (PICTURES / f"{name}.svg").write_text(picture)
    blocks = {
        "peers-conditions": peers["conditions"] + ".",
        "scaling-conditions": scaling["conditions"] + ".",
        "beside": (RESULTS / "beside.md").read_text().partition("`\n\n")[2].strip(),
        "ratios": ratios.table(peers["results"], tables.shown),
        **{name: scaling_table(axis) for name, axis in axes.items()},
        **{name: tables.table(name, found, peers["missing"]) for name, found in peers["results"].items()},
    }
    PAGE.write_text(filled(PAGE.read_text(), blocks))


def _of_peers(results: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]) -> dict[str, str]:
    pictures = {}
    for name in BARS:
        rows = [
            Bar(BY_NAME[system].title, statistics.median(rates), min(rates), max(rates), _is_ours(system))
            for system, turns in results.get(name, {}).items()
            if (rates := [turn["rate"] for turn in turns if "rate" in turn])
        ]
        if rows:
            rows.sort(key=lambda row: -row.value)
            title = f"{name}: {WORKLOADS[name].title}"
            pictures[name] = bars(title, "messages/s; the line is the range of the turns", rows)
    loops = {system: turn for system, turns in results.get("W6", {}).items() for turn in turns if "held" in turn}
    if loops:
        series = [
            Line(f"{BY_NAME[system].title}, {label}", turn[key], color, is_dashed=key == "held")
            for color, (system, turn) in enumerate(loops.items())
            for key, label in (("free", "not held"), ("held", "held"))
        ]
        count = len(series[0].values)
        places = [f"{10 * nth} to {10 * nth + 10}" for nth in range(count)]
        title = "W6: a closed loop while a snapshot is held"
        pictures["W6"] = lines(title, "messages/s", places, "seconds", series)
    return pictures


def _is_ours(system: str) -> bool:
    return BY_NAME[system].adapter == PGQUEUE.adapter


def _of_axes(axes: Mapping[str, Axis]) -> dict[str, str]:
    return {
        name: lines(
            axis.title,
            "messages/s",
            [f"{count:,}" for count in axis.rates],
            axis.counts,
            [Line("pgqueue", [statistics.median(rates) for rates in axis.rates.values()])],
        )
        for name, axis in axes.items()
    }


def _axis(found: Mapping[str, Any]) -> Axis:
    return Axis(found["title"], found["counts"], {int(count): rates for count, rates in found["rates"].items()})


if __name__ == "__main__":
    main()
