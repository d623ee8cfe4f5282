"""``python -m benchmarks.peers``: sending in bulk and working off with a handler that does nothing, peers in turn."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from urllib.parse import quote

import psycopg

from benchmarks.report import machine
from benchmarks.server import running, version
from pgqueue.testing.server import ThrowawayServer

ROOT = Path(__file__).parents[2]
PEERS_PYTHON = ROOT / ".bench" / "bin" / "python"

#: The floor first, ours second; each has a database of its own on one server.
PEERS = {
    "with_psycopg": ("raw psycopg", Path(sys.executable)),
    "with_pgqueue": ("pgqueue", Path(sys.executable)),
    "with_pgqueuer": ("PgQueuer", PEERS_PYTHON),
    "with_procrastinate": ("Procrastinate", PEERS_PYTHON),
    "with_awa": ("Awa", PEERS_PYTHON),
}
FLOOR = "with_psycopg"
ACTS = ("send", "drain")


class TurnError(Exception):
    """What a peer's process said last."""


Rates = dict[tuple[str, str], list[float]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--markdown", type=Path, help="write the table to this file, too")
    options = parser.parse_args()
    with running() as server:
        missing = {peer: reason for peer in PEERS if (reason := _prepare(server, peer))}
        rates: Rates = defaultdict(list)
        for run in range(options.runs):
            for peer in PEERS.keys() - missing.keys():
                for act in ACTS:
                    rates[peer, act].append(_turn(server, peer, act, options.messages))
            print(f"run {run + 1} of {options.runs}", file=sys.stderr, flush=True)
        conditions = f"{machine()}, PostgreSQL {version(server)}, synchronous_commit off, 200 bytes a body"
    report = f"{conditions}\n\n{_table(rates, missing)}"
    print(report)
    if options.markdown:
        command = " ".join(["python", *sys.orig_argv[1:]])
        releases = (Path(__file__).parent / "requirements.txt").read_text().split()
        options.markdown.write_text(f"# Peers\n\n`{command}`\n\n{report}\n\n{', '.join(releases)}\n")


def _prepare(server: ThrowawayServer, peer: str) -> str | None:
    """Why a peer cannot take part, if it cannot."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f'create database "{peer}"'.encode())
    try:
        _turn(server, peer, "prepare", 0)
        for act in ACTS:
            _turn(server, peer, act, 1_000)
    except (OSError, TurnError) as error:
        return str(error)
    return None


def _turn(server: ThrowawayServer, peer: str, act: str, messages: int) -> float:
    dsn = f"postgresql://postgres@localhost/{peer}?host={quote(str(server.sockets), safe='')}"
    command = [PEERS[peer][1], "-m", "benchmarks.peers.turn", peer, act, dsn, str(messages)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TurnError(done.stderr.strip().splitlines()[-1])
    return float(done.stdout.split()[-1])


def _table(rates: Rates, missing: dict[str, str]) -> str:
    lines = [
        "| | sent in bulk, messages/s | ÷ raw | worked off, messages/s | ÷ raw |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for peer, (title, _) in PEERS.items():
        cells = [f"does not run here: {missing[peer]}"] if peer in missing else []
        for act in ACTS if peer not in missing else ():
            pairs = zip(rates[peer, act], rates[FLOOR, act], strict=True)
            cells += [
                f"{statistics.median(rates[peer, act]):,.0f}",
                f"{statistics.median(rate / floor for rate, floor in pairs):.2f}",
            ]
        lines.append(f"| {' | '.join([title, *cells])} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
