"""``python -m benchmarks.scaling``: what a message costs, by depth, by consumers, by queues."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.arguments import whole
from benchmarks.report import load, machine
from benchmarks.scaling.measurements import FULL, QUICK, Axis, consumers, queues, waiting
from benchmarks.server import running, version


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a look, in a minute")
    parser.add_argument("--turns", type=whole, help="how often each place of an axis is measured")
    parser.add_argument(
        "--markdown", type=Path, help="write the tables to this file, and all figures beside it, as JSON"
    )
    options = parser.parse_args()
    scale = QUICK if options.quick else FULL
    scale = replace(scale, turns=options.turns or scale.turns)
    busy = load()
    with running() as server:
        conditions = f"{machine()}, PostgreSQL {version(server)}, synchronous_commit off, 200 bytes a body, {busy}"
        axes = []
        for measure in (waiting, consumers, queues):
            axes.append(measure(server, scale))
            print(axes[-1].title, file=sys.stderr, flush=True)
    text = "\n\n".join([conditions, *(table(axis) for axis in axes)])
    print(text)
    if options.markdown:
        command = " ".join(["python", *sys.orig_argv[1:]])
        options.markdown.write_text(f"# Scaling\n\n`{command}`\n\n{text}\n")
        figures = {"conditions": conditions, "axes": [asdict(axis) for axis in axes]}
        options.markdown.with_suffix(".json").write_text(json.dumps(figures, indent=1) + "\n")


def table(axis: Axis) -> str:
    """Markdown. The ratio to the first row is taken within each turn."""
    lines = [
        f"| {axis.title} | messages/s | lowest to highest | ÷ first row |",
        "| ---: | ---: | ---: | ---: |",
    ]
    first = next(iter(axis.rates.values()))
    for count, rates in axis.rates.items():
        ratio = statistics.median(rate / other for rate, other in zip(rates, first, strict=True))
        span = f"{min(rates):,.0f} to {max(rates):,.0f}"
        lines.append(f"| {count:,} | {statistics.median(rates):,.0f} | {span} | {ratio:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
