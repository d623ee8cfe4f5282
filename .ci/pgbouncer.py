"""Print a program that is PgBouncer 1.22 or newer: ``pgbouncer.py``.

That on the PATH is taken where it is new enough. Otherwise Debian's packages, with all the libraries it needs and the
C library, are unpacked into ``.postgres``, once; apt fetches them from the mirror that this machine uses for its own.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

OLDEST = (1, 22)  # since then it understands how psycopg forgets its prepared statements
RELEASE = "trixie"
PACKAGES = (
    "pgbouncer",
    "libaudit1",
    "libc6",
    "libcap-ng0",
    "libcap2",
    "libcares2",
    "libevent-2.1-7t64",
    "libgcc-s1",
    "libpam0g",
    "libssl3t64",
    "libsystemd0",
    "libzstd1",
)
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
CACHE = Path(__file__).resolve().parents[1] / ".postgres"
REMEDY = f"install PgBouncer {OLDEST[0]}.{OLDEST[1]} or newer, so that it is on the PATH"


def main() -> None:
    installed = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    sys.stdout.write(f"{installed if installed and version(installed) >= OLDEST else from_debian()}\n")


def version(program: str | Path) -> tuple[int, ...]:
    said = subprocess.run([program, "--version"], check=False, capture_output=True, text=True).stdout
    found = re.match(r"PgBouncer (\d+)\.(\d+)", said)
    return tuple(int(part) for part in found.groups()) if found else ()


def from_debian() -> Path:
    target = CACHE / f"pgbouncer-{RELEASE}"
    if not target.exists():
        CACHE.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            unpacked = unpack(Path(scratch))
            if version(unpacked / "pgbouncer") < OLDEST:
                give_up("Debian's does not run here")
            unpacked.rename(target)
    return target / "pgbouncer"


def unpack(scratch: Path) -> Path:
    apt = private_apt(scratch)
    run("apt-get", *apt, "--quiet", "update", cwd=scratch)
    run("apt-get", *apt, "--quiet", "download", *PACKAGES, cwd=scratch)
    unpacked = scratch / "unpacked"
    for package in scratch.glob("*.deb"):
        run("dpkg-deb", "--extract", str(package), str(unpacked), cwd=scratch)
    write_starter(unpacked)
    unpacked.chmod(0o755)
    return unpacked


def private_apt(scratch: Path) -> list[str]:
    """The options with which apt knows only this one release, and touches nothing of the machine's."""
    if not KEYRING.exists():
        give_up("it is not on the PATH, or too old, and this is no Debian that it could be had from")
    sources = scratch / "sources.list"
    sources.write_text(f"deb [signed-by={KEYRING}] {mirror()} {RELEASE} main\n")
    (scratch / "status").touch()
    for directory in ("lists/partial", "cache/archives/partial"):
        (scratch / directory).mkdir(parents=True)
    options = {
        "Dir::Etc::SourceList": sources,
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": scratch / "lists",
        "Dir::State::Status": scratch / "status",
        "Dir::Cache": scratch / "cache",
        "APT::Sandbox::User": "",
    }
    return [argument for name, value in options.items() for argument in ("--option", f"{name}={value}")]


def mirror() -> str:
    """Where this machine has its packages from, leaving out the security updates, which are a place of their own."""
    codename = platform.freedesktop_os_release().get("VERSION_CODENAME", RELEASE)
    would_fetch = run("apt-get", "update", "--print-uris", cwd=CACHE)
    mirrors = re.findall(rf"'(\S+)/dists/(?:{codename}|stable)/InRelease'", would_fetch)
    if not mirrors:
        give_up(f"it is not on the PATH, or too old, and apt's sources have no mirror of Debian's {codename}")
    return str(mirrors[0])


def write_starter(unpacked: Path) -> None:
    """A script that runs it with the libraries it came with, whatever those of the machine are."""
    (loader,) = (unpacked / "usr/lib").glob("*/ld-linux-*")
    starter = unpacked / "pgbouncer"
    libraries = f'"$here/{loader.parent.relative_to(unpacked)}"'
    starter.write_text(
        "#!/bin/sh\n"
        'here=$(dirname "$0")\n'
        f'exec "$here/{loader.relative_to(unpacked)}" --library-path {libraries} "$here/usr/sbin/pgbouncer" "$@"\n'
    )
    starter.chmod(0o755)


def run(*command: str, cwd: Path) -> str:
    try:
        outcome = subprocess.run(command, check=False, cwd=cwd, capture_output=True, text=True)
    except FileNotFoundError:
        give_up(f"it is not on the PATH, or too old, and {command[0]} is not here to fetch Debian's")
    if outcome.returncode != 0:
        give_up(f"Debian's could not be fetched: {' '.join(outcome.stderr.split())}")
    return outcome.stdout


def give_up(reason: str) -> NoReturn:
    sys.exit(f"no PgBouncer: {reason}; {REMEDY}")


if __name__ == "__main__":
    main()
