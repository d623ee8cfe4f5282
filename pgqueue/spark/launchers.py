"""Launchers: small scripts that start another program in the right way, kept in a directory of this user."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


def write(kind: str, name: str, text: str) -> Path:
    """Write a program for all processes of this user.

    Raises:
        PermissionError: the directory belongs to another user.
    """
    home = Path(tempfile.gettempdir()) / f"pgqueue-{kind}-{os.getuid()}"
    home.mkdir(mode=0o700, exist_ok=True)
    if home.lstat().st_uid != os.getuid():
        raise PermissionError(f"{home} belongs to another user")
    program = home / "bin" / name
    program.parent.mkdir(exist_ok=True)
    fresh = program.with_name(f"{name}.{os.getpid()}")
    fresh.write_text(text)
    fresh.chmod(fresh.stat().st_mode | stat.S_IXUSR)
    fresh.replace(program)  # in one step: another process may be starting it at this moment
    return program
