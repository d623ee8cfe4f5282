"""The Python that the workers of a local Spark run on: this one, with PySpark as it is installed.

Spark puts an archive of PySpark's sources, and a jar of its own, first in the workers' import path. Python compiles
again whatever it imports from an archive, which takes more than half of a worker's start. A stream starts several
workers.
"""

from __future__ import annotations

import hashlib
import os
import sys

from pgqueue.spark import launchers

LAUNCHER = """\
#!/bin/sh
kept=
IFS=:
for path in $PYTHONPATH; do
    case $path in
        */pyspark/python/lib/*.zip | */pyspark/jars/*.jar) ;;
        *) kept="$kept$path:" ;;
    esac
done
PYTHONPATH=${{kept%:}} exec "{python}" "$@"
"""


def provide(*, local: bool) -> None:
    """Make sure that Spark's workers run on this Python, unless ``PYSPARK_PYTHON`` names another.

    If Spark was unpacked rather than installed by pip, or is not ``local``, PySpark may exist only in the archive.
    """
    ours = launcher()
    if os.environ.get("PYSPARK_PYTHON", ours) == ours:  # unless it is ours, left by an earlier local session
        os.environ["PYSPARK_PYTHON"] = ours if local and "SPARK_HOME" not in os.environ else sys.executable


def launcher() -> str:
    """The launcher that starts this Python without the archive; this Python itself if no launcher can be written."""
    text = LAUNCHER.format(python=sys.executable)
    name = f"python-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    try:
        program = launchers.write("python", name, text) if os.name == "posix" else sys.executable
    except OSError:
        return sys.executable
    return str(program) if os.access(program, os.X_OK) else sys.executable
