"""``python -m benchmarks.disasters``: each disaster by itself; ends with 1 when anything is lost, doubled or silent."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from benchmarks.chaos import display
from benchmarks.disasters import (
    clocking,
    crowding,
    dropping,
    exhausting,
    filling,
    numbering,
    pooling,
    promoting,
    recovering,
    replicating,
    report,
    restoring,
    tearing,
    upgrading,
)
from benchmarks.disasters.load import SETTLEMENTS
from benchmarks.disasters.round import Aftermath, Disaster, play

#: The kinds of disasters, in the order of the table.
MODULES = (
    restoring,
    recovering,
    upgrading,
    promoting,
    pooling,
    replicating,
    numbering,
    filling,
    exhausting,
    tearing,
    dropping,
    clocking,
    crowding,
)
DISASTERS: Mapping[str, type[Disaster]] = {each.name: each for module in MODULES for each in module.DISASTERS}


def main() -> None:
    options = _options()
    console = Console()
    books = Path(tempfile.mkdtemp(prefix="pgqueue-disasters-"))
    rows, results = [], []
    for name in options.only:
        if not DISASTERS[name].can_happen():
            console.print(f"{name} is left out: it takes root, or programs that are not here")
            continue
        directory = books / name.replace(" ", "-")
        result = play(DISASTERS[name](), options.seed, options.settle, directory)
        _show(console, name, result)
        rows.append(report.row(result))
        results.append(result)
    if options.markdown:
        report.write(options.markdown, rows)
    if any(result.violations for result in results):
        console.print(f"\n[bold red]A promise was broken.[/] The books: {books}")
        sys.exit(1)
    shutil.rmtree(books)
    console.print("\n[bold green]Nothing was lost, doubled, reported wrongly or left unsaid.[/]")


def _show(console: Console, name: str, result: Aftermath) -> None:
    console.print(
        f"{name}: {result.result.acknowledged:,} messages, {result.result.seconds:.0f} s, longest stall"
        f" {result.result.evidence.longest_stall:.1f} s, {result.never_there} never on the new server:"
        f" {display.counted(len(result.violations), 'violation')}",
        highlight=False,
        soft_wrap=True,
    )
    for finding in {each.check: each for each in reversed(result.found)}.values():
        console.print(f"  doctor: {finding.check}: {finding.what}", highlight=False, markup=False, soft_wrap=True)
    for violation in display.first(result.violations):
        console.print(str(violation), highlight=False, markup=False, soft_wrap=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.disasters", description=__doc__)
    disasters = "; ".join(f"{name}: {each.fault}" for name, each in DISASTERS.items())
    parser.add_argument(
        "--only", type=disasters_named, default=list(DISASTERS), metavar="NAME,NAME", help=f"only these; {disasters}"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the choices of all actors")
    parser.add_argument(
        "--settle",
        choices=SETTLEMENTS,
        default=SETTLEMENTS[0],
        help="by-id is the control: settlement by the sequence number alone, which fails",
    )
    parser.add_argument("--markdown", type=Path, help="write a row for each to this page, in place of its table")
    return parser.parse_args()


def disasters_named(text: str) -> list[str]:
    """Raises ArgumentTypeError, which names those that there are."""
    names = [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name not in DISASTERS]:
        raise argparse.ArgumentTypeError(f"no such disaster: {', '.join(unknown)}; there are {', '.join(DISASTERS)}")
    return names


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nbroken off: no verdict")
