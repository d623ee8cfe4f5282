"""How this process is named as the holder of its locks, for the person who looks with psql."""

from __future__ import annotations

import os
import socket


def this_process() -> str:
    """Host and process id; asked each time, because a process may fork."""
    return f"{socket.gethostname()}:{os.getpid()}"
