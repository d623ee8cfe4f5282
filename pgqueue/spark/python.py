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
    if "PYSPARK_PYTHON" in os.environ:
        return
    if local and os.name == "posix" and "SPARK_HOME" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = launcher()
    else:
        os.environ["PYSPARK_PYTHON"] = sys.executable


def launcher() -> str:
    """The program that starts this Python without the archive."""
    text = LAUNCHER.format(python=sys.executable)
    return str(launchers.write("python", f"python-{hashlib.sha256(text.encode()).hexdigest()[:12]}", text))
