"""Rows of docs/reliability.md, one for each disaster."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.disasters.round import Aftermath
from benchmarks.report import machine

TITLES = (
    "disaster",
    "load",
    "messages",
    "lost",
    "doubled",
    "wrong states",
    "longest stall",
    "doctor",
    "manual steps",
    "command",
)
HEADING = f"| {' | '.join(TITLES)} |\n|{' --- |' * len(TITLES)}"


def row(result: Aftermath) -> str:
    played = result.result
    actors = sum(len(process.actors) for process in played.plan.processes)
    missed = f", and {result.never_there:,} that the new server never had" if result.never_there else ""
    cells = [
        result.disaster.fault,
        f"{actors} actors, {played.acknowledged / played.seconds:.0f} messages/s",
        f"{played.acknowledged:,}",
        f"{result.lost}{missed}",
        str(result.doubled),
        str(result.others),
        f"{played.evidence.longest_stall:.1f} s",
        ", ".join(f"`{check}`" for check in sorted({each.check for each in result.found})) or "finds nothing",
        result.disaster.person,
        f'`make disasters ONLY="{result.disaster.name}"`',
    ]
    return f"| {' | '.join(cells)} |"


def write(page: Path, rows: Sequence[str], heading: str = HEADING) -> None:
    """Put the table in the place of the one that the page has, with the conditions above it; or make the page."""
    table = "\n".join([f"{machine()}, PostgreSQL 18.\n", heading, *rows])
    before = page.read_text() if page.exists() else ""
    place = re.compile(r"^[^\n]+\n\n" + re.escape(heading) + r"(\n\|[^\n]*)*", re.MULTILINE)
    page.write_text(place.sub(lambda _: table, before) if place.search(before) else f"{before}{table}\n")
