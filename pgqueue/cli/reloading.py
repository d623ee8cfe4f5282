"""``pgqueue worker --reload``: the same command in a process of its own, restarted when a module changes."""

from __future__ import annotations

import logging
import shlex
import sys
from pathlib import Path

from pgqueue.cli import output
from pgqueue.cli.failures import WrongUse

OPTION = "--reload"


def run_reloading() -> None:
    """Run this command without ``--reload``, again after each change of a Python file below the current directory.

    Raises:
        WrongUse: the extra is not installed.
    """
    try:
        from watchfiles import PythonFilter, run_process
    except ImportError as error:
        raise WrongUse(f"{OPTION} needs the extra reload: pip install 'pgqueue-tx[reload]'") from error
    logging.getLogger("watchfiles").setLevel(logging.ERROR)  # it warns of being stopped
    command = [sys.executable, *(each for each in sys.orig_argv[1:] if each != OPTION)]
    run_process(
        Path.cwd(),
        target=shlex.join(command),
        target_type="command",
        watch_filter=PythonFilter(),
        callback=lambda changes: output.say(f"{min(Path(path).name for _, path in changes)} has changed: restarting"),
    )
