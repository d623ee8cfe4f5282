"""``python -m benchmarks.peers``: seven workloads, side by side with other systems; systems take turns."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import psycopg

from benchmarks.arguments import positive, whole
from benchmarks.earlier import existing_commit, library_at
from benchmarks.peers.installing import NotInstalledError, install
from benchmarks.peers.stage import ActError, Prepared, Stage, prepared
from benchmarks.peers.systems import BEFORE, BY_NAME, SYSTEMS
from benchmarks.peers.tables import report
from benchmarks.peers.workloads import WORKLOADS, Place, Sizes, Workload
from benchmarks.report import load, machine
from benchmarks.server import SETTINGS, running
from pgqueue.testing.server import ThrowawayServer

#: One system that fails does not end the run.
FAILURES = (ActError, OSError, psutil.Error, psycopg.Error)
NO_PGMQ = "needs its SQL file: PGMQ=path/to/pgmq.sql"
#: PostgreSQL's default: a commit waits for the disk.
DURABLE = {**SETTINGS, "shared_buffers": "512MB", "synchronous_commit": "on", "max_connections": "300"}


@dataclass
class Run:
    """The measurements so far."""

    conditions: str = ""
    results: dict[str, dict[str, list[dict[str, Any]]]] = field(default_factory=dict)
    about: dict[str, dict[str, Any]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def add(self, workload: str, system: str, figures: dict[str, Any]) -> None:
        self.results.setdefault(workload, {}).setdefault(system, []).append(figures)


def main() -> None:
    options, busy = _options(), load()
    with _place(Sizes(held=options.held)) as place, _before(options.before) as before:
        run = Run(f"{_conditions(place)}, {busy}")
        systems = _prepared(run, place, options, before)
        for workload, system, turn in _turns(options, systems):
            _measure(run, place, workload, system)
            print(f"turn {turn + 1}, {_progress(run, workload.name, system.system.name)}", file=sys.stderr, flush=True)
            if options.markdown:  # after each: a run that is broken off leaves what it has
                _write(run, options.markdown)
    print(_text(run))


def _write(run: Run, path: Path) -> None:
    command = " ".join(["python", *sys.orig_argv[1:]])
    path.write_text(f"# Peers\n\n`{command}`\n\n{_text(run)}\n")
    path.with_suffix(".json").write_text(json.dumps(vars(run), indent=1) + "\n")


def _text(run: Run) -> str:
    return f"{run.conditions}\n\n{report(run.results, run.about, run.missing)}"


def _options() -> argparse.Namespace:
    def names(known: Sequence[str], text: str) -> list[str]:
        found = [name.strip() for name in text.split(",")]
        if unknown := [name for name in found if name not in known]:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not one of {', '.join(known)}")
        return found

    def file(text: str) -> Path:
        if not Path(text).is_file():
            raise argparse.ArgumentTypeError(f"there is no file {text}")
        return Path(text).resolve()

    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--only", type=partial(names, list(WORKLOADS)), help="workloads: W3,W5")
    parser.add_argument("--systems", type=partial(names, list(BY_NAME)), help="systems: raw,pgqueue,graphile-worker")
    parser.add_argument("--turns", type=whole, help="how often; else what each workload needs")
    parser.add_argument("--pgmq", type=file, metavar="FILE", help="PGMQ's pgmq-extension/sql/pgmq.sql")
    parser.add_argument(
        "--before", type=existing_commit, metavar="COMMIT", help="measure the Worker of that commit, too"
    )
    parser.add_argument("--held", type=positive, default=Sizes.held, help="how long W6 holds a snapshot, in seconds")
    parser.add_argument(
        "--markdown", type=Path, help="write the tables to this file, and all figures beside it, as JSON"
    )
    return parser.parse_args()


@contextmanager
def _place(sizes: Sizes) -> Iterator[Place]:
    with running(DURABLE) as server:
        has_statements = _count_statements(server)
        yield Place(server.dsn(), sizes, server.process_id(), has_statements)


def _count_statements(server: ThrowawayServer) -> bool:
    """Whether the server has pg_stat_statements; it is turned on then."""
    available = "select count(*) from pg_available_extensions where name = 'pg_stat_statements'"
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        if connection.execute(available).fetchall() == [(0,)]:
            return False
        connection.execute("alter system set shared_preload_libraries = 'pg_stat_statements'")
    server.restart()
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("create extension pg_stat_statements")
    return True


def _before(commit: str | None) -> AbstractContextManager[Path | None]:
    """The folder with the library of that commit, if one is named."""
    return nullcontext() if commit is None else library_at(commit)


def _prepared(run: Run, place: Place, options: argparse.Namespace, before: Path | None) -> list[Prepared]:
    """Those that can take part; why others cannot is noted."""
    found = []
    for system in SYSTEMS:
        if options.systems and system.name not in options.systems:
            continue
        if system is BEFORE and before is None:
            continue
        try:
            if system.needs_pgmq and options.pgmq is None:
                raise NotInstalledError(NO_PGMQ)
            install(system)
            its_own = replace(system, library=before) if system is BEFORE else system
            found.append(prepared(place.server, its_own, options.pgmq))
            run.about[system.name] = dict(found[-1].about)
        except (NotInstalledError, *FAILURES) as error:
            run.missing[system.name] = " ".join(str(error).split())
            print(f"{system.title}: {error}", file=sys.stderr)
    return found


def _turns(options: argparse.Namespace, systems: Sequence[Prepared]) -> Iterator[tuple[Workload, Prepared, int]]:
    """A B C … A B C …: a mood of the machine hits everybody alike."""
    workloads = [WORKLOADS[name] for name in options.only or WORKLOADS]
    for turn in range(options.turns or max(workload.turns for workload in workloads)):
        for workload in workloads:
            for system in systems:
                name = system.system.name
                is_wanted = options.systems or not workload.usual or name in workload.usual
                has_turn = options.turns or workload.has_turn(name, turn)
                if is_wanted and has_turn and system.system.takes_part(workload.name):
                    yield workload, system, turn


def _measure(run: Run, place: Place, workload: Workload, system: Prepared) -> None:
    try:
        figures = workload.run(lambda: Stage(system), place)
    except FAILURES as error:
        figures = {"flaw": " ".join(str(error).split())}
    run.add(workload.name, system.system.name, figures)


def _progress(run: Run, workload: str, system: str) -> str:
    figures = run.results[workload][system][-1]
    said = " ".join(f"{name} {figure:.4g}" for name, figure in figures.items() if isinstance(figure, float))
    return f"{time.strftime('%T')} {workload} {system}: {said} {figures.get('flaw', '')}"


def _conditions(place: Place) -> str:
    with psycopg.connect(place.server) as connection:
        number = connection.info.parameter_status("server_version")
    return (
        f"{machine()}, Python {platform.python_version()}, PostgreSQL {number}, synchronous_commit on,"
        " 200 bytes a body, one Unix socket"
    )


if __name__ == "__main__":
    main()
