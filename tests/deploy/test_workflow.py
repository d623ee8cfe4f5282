"""The public workflow passes its validator, runs commands that exist, and publishes only the version that is tagged."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import pgqueue

pytestmark = pytest.mark.core

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
JOBS: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text())["jobs"]
COMMANDS = [line for job in JOBS.values() for step in job["steps"] for line in step.get("run", "").splitlines()]


def check_tag(tag: str, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([root / ".ci" / "check-tag", tag], capture_output=True, text=True, check=False)


def test_workflow_passes_its_validator() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(WORKFLOW)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_of_the_workflow_exist(line: str) -> None:
    program, *arguments = shlex.split(line)
    if program == "make":
        subprocess.run(["make", "--dry-run", *arguments], cwd=ROOT, capture_output=True, check=True)
    else:
        assert os.access(ROOT / program, os.X_OK), f"{program} is no program of this repository"


def test_workflow_runs_everything_before_it_publishes() -> None:
    assert {".ci/run", "make dist", "make test-azure"} < set(COMMANDS)
    assert JOBS["publish"]["needs"] == ["test", "azure"]
    assert JOBS["publish"]["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert JOBS["publish"]["permissions"]["id-token"] == "write"


def test_tag_is_accepted_if_it_is_the_version_and_the_changelog_has_it() -> None:
    assert check_tag(f"v{pgqueue.__version__}").returncode == 0


@pytest.mark.parametrize("tag", ["v9.9.9", f"v{pgqueue.__version__}.1", "v0x1y0"])
def test_another_tag_is_refused(tag: str) -> None:
    refused = check_tag(tag)
    assert refused.returncode == 1
    assert "is not the version in pyproject.toml" in refused.stderr


def test_version_without_a_dated_section_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "check-tag", tmp_path / ".ci")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    undated = re.sub(r"(?m)^## \[.*$", "## [Unreleased]", (ROOT / "CHANGELOG.md").read_text())
    (tmp_path / "CHANGELOG.md").write_text(undated)
    refused = check_tag(f"v{pgqueue.__version__}", tmp_path)
    assert (refused.returncode, refused.stderr) == (1, f"CHANGELOG.md has no dated section for {pgqueue.__version__}\n")
