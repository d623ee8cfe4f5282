"""``python -m benchmarks.budgets``: what a call of each verb costs, beside its budget."""

from __future__ import annotations

import argparse
import sys

from benchmarks.budgets import budget
from benchmarks.budgets.measuring import measure


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.budgets", description=__doc__)
    parser.add_argument("--only", metavar="PART", default="", help="the verbs with this in their name")
    parser.add_argument("--write", action="store_true", help="make what is measured the budgets")
    options = parser.parse_args()
    measured = measure(options.only)
    text = budget.written(measured.table, measured.versions)
    print(text[text.index("|") :])
    budgets = budget.read(budget.FILE.read_text())
    if options.write:
        others = budgets if options.only else {}
        budget.FILE.write_text(budget.written({**others, **measured.table}, measured.versions))
        return
    differing = list(budget.differences(measured.table, budgets))
    for difference in differing:
        print(difference)
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
