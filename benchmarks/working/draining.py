"""How fast a full queue is worked off: every way in turn, run after run."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence

from benchmarks.report import medians
from benchmarks.working.scene import Scene
from benchmarks.working.ways import Way


def measure(scene: Scene, compared: Sequence[Way], messages: int, runs: int) -> str:
    rates: dict[str, list[float]] = defaultdict(list)
    for run in range(runs):
        for way in compared:
            count = int(messages * way.share)
            scene.fill(count)
            rates[way.title].append(way.run(scene, count))
        print(f"run {run + 1} of {runs}", file=sys.stderr, flush=True)
    return medians(rates, {way.title: way.floor for way in compared}, "messages/s")
