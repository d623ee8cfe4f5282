"""Running pgbench and reading what it prints."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

BATCH = 10


@dataclass(frozen=True)
class Run:
    """The figures of one run of pgbench. ``progress`` is the rate in each chunk, in transactions a second."""

    rate: float
    latency_ms: float
    progress: tuple[float, ...]

    @property
    def messages_per_second(self) -> float:
        return self.rate * BATCH


@dataclass(frozen=True)
class Pgbench:
    """Prepared statements and generic plans, so that no design is charged for planning."""

    binaries: Path
    body: str
    chunk: int = 2

    def run(
        self, dsn: str, script: Path, *, clients: int, seconds: int | None = None, transactions: int | None = None
    ) -> Run:
        bound = ["--time", str(seconds)] if seconds is not None else ["--transactions", str(transactions)]
        command = [
            *(str(self.binaries / "pgbench"), "--no-vacuum", "--protocol", "prepared"),
            *("--client", str(clients), "--jobs", str(min(clients, 2)), *bound),
            *("--progress", str(self.chunk), "--define", f"body={self.body}", "--file", str(script), dsn),
        ]
        finished = subprocess.run(
            command,
            env={"PGOPTIONS": "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off"},
            capture_output=True,
            text=True,
            check=False,
        )
        if finished.returncode != 0:
            raise RuntimeError(f"pgbench failed with {script}: {finished.stderr.strip()}")
        return Run(
            rate=float(_found(r"tps = ([\d.]+)", finished.stdout)),
            latency_ms=float(_found(r"latency average = ([\d.]+) ms", finished.stdout)),
            progress=tuple(float(rate) for rate in re.findall(r"progress: .*?, ([\d.]+) tps", finished.stderr)),
        )


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise RuntimeError(f"pgbench did not print {pattern!r}: {text}")
    return match.group(1)
