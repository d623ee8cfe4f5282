"""The default data directory of the embedded server."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from pgqueue.embedded.server import ServerError


def default_directory() -> Path:
    """The same directory at every start, so that the data stays: the user's data directory, else the temporary one."""
    for directory in (_of_the_user(), Path(tempfile.gettempdir()) / f"pgqueue-{os.geteuid()}"):
        if _is_writable(directory):
            return directory
    raise ServerError(f"neither {_of_the_user()} nor {tempfile.gettempdir()} can be written to: name a directory")


def _of_the_user() -> Path:
    if os.geteuid() == 0:
        # The account that has to run PostgreSQL cannot enter root's home.
        return Path("/var/lib/pgqueue")
    import platformdirs

    return platformdirs.user_data_path("pgqueue", appauthor=False)


def _is_writable(directory: Path) -> bool:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(directory, os.W_OK | os.X_OK)
