"""A release can be built again, to the same hashes; its bill of materials names the locked packages."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
LOCK = (REPOSITORY / "requirements.lock").read_text()


def build(source: Path, target: Path, *, umask: int, zone: str) -> dict[str, str]:
    """The hashes of the wheel and the sdist of a source."""
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--directory", target],
        cwd=source,
        env={**environment, "TZ": zone},
        umask=umask,
        check=True,
        capture_output=True,
    )
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in target.iterdir()}


def another_checkout(sdist: Path, target: Path) -> Path:
    """The source as another user has it: other modes and dates, another order of files, and what a build leaves."""
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(sdist.read_bytes()))) as archive:
        for member in reversed(archive.getmembers()):
            archive.extract(member, target, filter="data")
    (source,) = target.iterdir()
    (source / "PKG-INFO").unlink()
    (source / "pgqueue" / "__pycache__").mkdir()
    (source / "pgqueue" / "__pycache__" / "left.pyc").touch()
    shutil.copytree(source / "sql", source / "build" / "sql")
    for path in source.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
        os.utime(path, (1_000_000_000, 1_000_000_000))
    return source


def test_two_builds_have_the_same_hashes(tmp_path: Path) -> None:
    first = build(REPOSITORY, tmp_path / "first", umask=0o022, zone="America/Lima")
    (sdist,) = (tmp_path / "first").glob("*.tar.gz")
    checkout = another_checkout(sdist, tmp_path / "another" / "folder")
    assert build(checkout, tmp_path / "second", umask=0o077, zone="Asia/Tokyo") == first
    assert len(first) == 2


@pytest.mark.core
def test_make_builds_with_the_date_of_hatchling() -> None:
    command = ["make", "--no-print-directory", "--eval", "epoch: ; @echo $${SOURCE_DATE_EPOCH-unset}", "epoch"]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1"}
    made = subprocess.run(command, cwd=REPOSITORY, env=environment, check=True, capture_output=True, text=True)
    assert made.stdout == "unset\n"


def bill_of_materials(target: Path, **variables: str) -> dict[str, Any]:
    command = [sys.executable, str(REPOSITORY / ".ci" / "sbom.py"), str(target)]
    written = subprocess.run(command, env={**os.environ, **variables}, check=False, capture_output=True, text=True)
    assert written.returncode == 0, written.stderr
    return dict(json.loads(target.read_text()))


@pytest.mark.timeout(600)
def test_bill_of_materials_names_the_locked_packages_of_core_and_extras(tmp_path: Path) -> None:
    bill = bill_of_materials(tmp_path / "first.json")
    assert bill_of_materials(tmp_path / "second.json", UV_OFFLINE="1") == bill
    scopes = {component["name"]: component["scope"] for component in bill["components"]}
    assert {"psycopg": "required", "psycopg-binary": "optional", "pyspark": "optional"}.items() <= scopes.items()
    assert not {"hatchling", "hypothesis", "ruff"} & scopes.keys()
    for component in bill["components"]:
        archives = {archive["hashes"][0]["content"] for archive in component["externalReferences"]}
        assert archives <= locked_hashes(component["name"], component["version"])


def locked_hashes(name: str, version: str) -> set[str]:
    (entry,) = re.findall(rf"(?m)^{name}=={re.escape(version)} .*\n((?: +--hash.*\n)+)", LOCK)
    return set(re.findall(r"sha256:([0-9a-f]{64})", entry))
