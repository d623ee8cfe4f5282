"""The default data directory of the embedded server."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from pgqueue.embedded.server import ServerError

#: Names another directory, so that a project has data of its own.
VARIABLE = "PGQUEUE_EMBEDDED_DIRECTORY"


def default_directory() -> Path:
    """The same directory at every start, so that the data stays: the one that the environment names, or the user's.

    All projects of a user share the latter. If it cannot be written to, the temporary directory is used.
    """
    if named := os.environ.get(VARIABLE):
        return Path(named)
    for directory in (of_the_user(), Path(tempfile.gettempdir()) / f"pgqueue-{os.geteuid()}"):
        if _is_writable(directory):
            return directory
    raise ServerError(
        f"neither {of_the_user()} nor {tempfile.gettempdir()} can be written to: name a directory by {VARIABLE}"
    )


def of_the_user() -> Path:
    """The directory of the user who runs this, or has become root by sudo."""
    if os.geteuid() == 0:
        # The account that has to run PostgreSQL cannot enter root's home. Users of sudo do not share their data.
        person = os.environ.get("SUDO_UID", "0")
        return Path("/var/lib") / ("pgqueue" if person == "0" else f"pgqueue-{person}")
    import platformdirs

    return platformdirs.user_data_path("pgqueue", appauthor=False)


def _is_writable(directory: Path) -> bool:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(directory, os.W_OK | os.X_OK)
