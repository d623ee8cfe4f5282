"""The name of this process as the holder of its locks, for people who look with psql."""

from __future__ import annotations

import os
import socket


def this_process() -> str:
    """Return host and process id; computed at each call, because a process may fork."""
    return f"{socket.gethostname()}:{os.getpid()}"
