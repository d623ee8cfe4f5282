"""The account that runs PostgreSQL: ours, or an unprivileged one, because PostgreSQL refuses to run as root."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

UNPRIVILEGED = "nobody"


@dataclass(frozen=True)
class Account:
    """A user of this machine; ``user_id`` is None if it is the current one."""

    user_id: int | None = None
    group_id: int | None = None

    def run(self, command: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
        """Run a program as this account, in a directory."""
        # In a directory of its own: a program complains when it may not read its working directory.
        return subprocess.run(
            command,
            check=False,
            cwd=directory,
            user=self.user_id,
            group=self.group_id,
            extra_groups=None if self.user_id is None else [],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    def make_directory(self, path: Path) -> None:
        """Create a directory that only this account may enter."""
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.stat().st_uid not in (os.geteuid(), self.user_id):
            raise PermissionError(f"{path} belongs to another user")
        self._change_owner(path)

    def _change_owner(self, path: Path) -> None:
        if self.user_id is not None and self.group_id is not None:
            os.chown(path, self.user_id, self.group_id, follow_symlinks=False)

    def can_enter(self, directory: Path) -> bool:
        """Whether this account may enter a directory."""
        return self.run(["test", "-x", str(directory)], directory).returncode == 0

    def can_run(self, program: Path, directory: Path) -> bool:
        """Whether this account can run a program."""
        try:
            return self.run([str(program), "--version"], directory).returncode == 0
        except PermissionError:
            return False

    def copy(self, source: Path, target: Path) -> None:
        """Copy a directory so that this account can read it; an earlier copy of the same files is kept."""
        if _newest(source) == _newest(target):
            return
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("include"))
        for path in (target, *target.rglob("*")):
            self._change_owner(path)


def _newest(directory: Path) -> int:
    files = (path for path in directory.rglob("*") if path.is_file() and "include" not in path.parts)
    return max((path.stat().st_mtime_ns for path in files), default=0)


def unprivileged() -> Account:
    """The account to run PostgreSQL as: ``nobody`` if we are root, otherwise the current one."""
    if os.geteuid() != 0:
        return Account()
    import pwd

    entry = pwd.getpwnam(UNPRIVILEGED)
    return Account(entry.pw_uid, entry.pw_gid)
