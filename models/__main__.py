"""Check the models, and that their twins are refuted: ``python -m models [PART OF A NAME] [--trace] [--lean]``."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

from models import tlc
from models.life_trace import MESSAGES
from models.session_life_trace import SESSIONS
from models.table import CHECKS, HERE, INVARIANTS, MODELS, Check, unknown
from models.traces import Kind, refused

#: Digests of the modules as all of their checks last came out as expected.
PROVED = HERE / "proved.json"


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m models", description=__doc__)
    arguments.add_argument("name", nargs="?", default="", help="only the models and twins whose name has this in it")
    arguments.add_argument("--trace", action="store_true", help="show all output of TLC, counterexamples too")
    arguments.add_argument("--lean", action="store_true", help="of modules that are as proved last, only one model")
    chosen = arguments.parse_args()
    if unknown():
        print("the modules and the table do not name the same rules:", *sorted(unknown()), sep="\n  ")
        return 1
    checks = [check for check in (lean() if chosen.lean else CHECKS) if chosen.name in str(check)]
    began = time.monotonic()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        running = {pool.submit(tlc.run, check): check for check in checks}
        failed = [
            running[done] for done in as_completed(running) if not report(running[done], done.result(), chosen.trace)
        ]
    agreeing = [report_histories(each) for each in (MESSAGES, SESSIONS) if chosen.name in each.name]
    print(f"{len(checks) - len(failed)} as expected, {len(failed)} not, in {time.monotonic() - began:.0f} s")
    good = set(checks).difference(failed)
    proved = {module: digest(module) for module in INVARIANTS if good.issuperset(of(module))}
    PROVED.write_text(json.dumps({**known(), **proved}, indent=1) + "\n")
    return 1 if failed or not all(agreeing) or not (checks or agreeing) else 0


def lean() -> list[Check]:
    """All checks of modules that have changed, and the quickest model of each other module: its last."""
    proved = known()
    changed = {module for module in INVARIANTS if proved.get(module) != digest(module)}
    quickest = {model.module: model for model in MODELS}
    return [check for check in CHECKS if check.model.module in changed or check == Check(quickest[check.model.module])]


def known() -> dict[str, str]:
    """The digests in PROVED, of modules that there still are."""
    proved = json.loads(PROVED.read_text()) if PROVED.exists() else {}
    return {module: proved[module] for module in INVARIANTS if module in proved}


def of(module: str) -> list[Check]:
    """The checks of a module."""
    return [check for check in CHECKS if check.model.module == module]


def digest(module: str) -> str:
    """Of a module, and of what decides how it is checked."""
    texts = [
        (HERE / f"{module}.tla").read_text(),
        (HERE / "tlc.py").read_text(),
        repr(INVARIANTS[module]),
        repr(of(module)),
    ]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]


def report(check: Check, verdict: tlc.Verdict, trace: bool) -> bool:
    """Print a line, and the counterexample where there should be none; return whether it is as expected."""
    expected = (not verdict.violated) == check.holds
    found = f"refuted: {verdict.violated}" if verdict.violated else "holds"
    reason = f" ({check.why})" if check.why else ""
    mark = "ok" if expected else "WRONG"
    print(f"{mark:6}{check}: {found}{reason}; {verdict.states} states, {verdict.seconds:.1f} s", flush=True)
    if trace or (verdict.violated and not expected):
        print(verdict.output)
    return expected


def report_histories(kind: Kind) -> bool:
    """Print whether the model allows what was recorded, and nothing false; return whether it does."""
    true = kind.histories
    unproven = {each for history in true for each in kind.allowed_without_proof(history)}
    false = unproven.union(each for history in true for each in kind.falsified(history))
    wrong = {
        "refused": refused(kind, true),
        "allowed, though false": false.difference(refused(kind, false)),
        f"refused without the rule that {kind.proof}": refused(kind, unproven, without=[kind.proof]),
    }
    mark = "WRONG" if any(wrong.values()) else "ok"
    print(f"{mark:6}{kind.name}: {len(true)} are true, {len(false)} false, {len(unproven)} without proof", flush=True)
    for title, histories in wrong.items():
        for history in histories:
            print(f"{title}:", *history, sep="\n  ")
    return not any(wrong.values())


if __name__ == "__main__":
    sys.exit(main())
