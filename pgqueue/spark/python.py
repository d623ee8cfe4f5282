"""Which Python the workers of a local Spark run on: this one, with PySpark as it is installed.

Spark puts an archive of PySpark's sources before everything else that its workers may import, and a jar of its own.
What Python imports from an archive it compiles anew: more than half of the time that a worker takes to start. A stream
starts several.
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
    """Make sure that Spark's workers run on this Python, unless ``PYSPARK_PYTHON`` says on which.

    Where Spark is one that was unpacked, not installed by pip, or not ``local``, its archive may be all there is.
    """
    ours = launcher()
    if os.environ.get("PYSPARK_PYTHON", ours) == ours:  # one that an earlier local session has left is not asked for
        os.environ["PYSPARK_PYTHON"] = ours if local and "SPARK_HOME" not in os.environ else sys.executable


def launcher() -> str:
    """The program that starts this Python without the archive; this Python itself where there can be none."""
    text = LAUNCHER.format(python=sys.executable)
    name = f"python-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    try:
        program = launchers.write("python", name, text) if os.name == "posix" else sys.executable
    except OSError:
        return sys.executable
    return str(program) if os.access(program, os.X_OK) else sys.executable
