"""Whether a model allows what receivers have recorded, and refuses it once it is falsified: its module of traces."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.chaos.histories import Event, History, load
from models.table import HERE
from models.tlc import jar, program


@dataclass(frozen=True)
class Kind:
    """Histories of some kind, recorded by `make chaos HISTORIES=models`, and those that are rare, by hand.

    ``falsified`` makes histories that did not happen of one that did, ``allowed_without_proof`` others, which the model
    allows without the rule ``proof``.
    """

    name: str
    module: str
    recorded: Path
    rare: tuple[History, ...]
    falsified: Callable[[History], Iterator[History]]
    allowed_without_proof: Callable[[History], Iterator[History]]
    proof: str
    constants: Callable[[Sequence[History]], str]

    @property
    def histories(self) -> list[History]:
        return [*load(self.recorded), *self.rare]


def receivers(histories: Sequence[History]) -> list[str]:
    return sorted({event.by for history in histories for event in history if event.by} | {"unheard"})


def in_braces(names: Collection[str]) -> str:
    """A set of strings in TLA+."""
    return "{" + ", ".join(f'"{name}"' for name in names) + "}"


def refused(kind: Kind, histories: Collection[History], *, without: Collection[str] = ()) -> list[History]:
    """Those of the histories that the model, or its twin without some rules, does not allow. Runs TLC once.

    Raises
    ------
    RuntimeError
        TLC came to no verdict; the text is all its output.
    """
    distinct = list(dict.fromkeys(histories))
    written = ",\n".join(f"<<{', '.join(map(_record, history))}>>" for history in distinct)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        (scratch / "Histories.tla").write_text(f"---- MODULE Histories ----\nHistories == <<\n{written}>>\n====\n")
        (scratch / "trace.cfg").write_text(
            f"SPECIFICATION TraceSpec\nINVARIANT Accepted\nCONSTANTS Receivers={in_braces(receivers(distinct))}"
            f" {kind.constants(distinct)} Broken={in_braces(without)}\n"
        )
        trace = f"{kind.module}Trace"
        for module in (kind.module, trace):
            (scratch / f"{module}.tla").write_text((HERE / f"{module}.tla").read_text())
        command = [program(), "-cp", jar(), "tlc2.TLC", "-deadlock", "-config", "trace.cfg", f"{trace}.tla"]
        output = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False).stdout
    if "No error has been found" not in output:
        raise RuntimeError(f"TLC came to no verdict\n{output}")
    accepted = {int(number) for number in re.findall(r'<<"accepted", (\d+)>>', output)}
    return [history for place, history in enumerate(distinct, 1) if place not in accepted]


def _record(event: Event) -> str:
    return (
        f'[verb |-> "{event.verb}", by |-> "{event.by}", to |-> "{event.to}", message |-> {event.message},'
        f" count |-> {event.count}, hasEffect |-> {str(event.has_effect).upper()},"
        f" isInDoubt |-> {str(event.is_in_doubt).upper()}, places |-> {in_braces(event.places)},"
        f" effects |-> {event.effects}, after |-> {{{', '.join(map(str, event.after))}}}]"
    )
