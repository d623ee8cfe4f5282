"""The public workflows pass their validator, run commands that exist, and publish only the version that is tagged."""

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
WORKFLOWS = sorted(map(str, (ROOT / ".github" / "workflows").glob("*.yml")))
CI, AUDIT = (
    {**yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())} for name in ("ci.yml", "audit.yml")
)
JOBS: dict[str, Any] = {**CI["jobs"], **AUDIT["jobs"]}
STEPS = [step for job in JOBS.values() for step in job["steps"]]
COMMANDS = [line for step in STEPS for line in step.get("run", "").splitlines()]
ACTIONS = [step["uses"] for step in STEPS if "uses" in step]


def check_tag(tag: str, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([root / ".ci" / "check-tag", tag], capture_output=True, text=True, check=False)


def test_workflows_pass_their_validator() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", *WORKFLOWS]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_of_the_workflow_exist(line: str) -> None:
    program, *arguments = shlex.split(line)
    if program == "make":
        subprocess.run(["make", "--dry-run", *arguments], cwd=ROOT, capture_output=True, check=True)
    elif program != "gh":  # GitHub's machines have it
        assert os.access(ROOT / program, os.X_OK), f"{program} is no program of this repository"


@pytest.mark.parametrize("action", sorted({*ACTIONS}))
def test_actions_are_pinned_by_commit(action: str) -> None:
    assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action), f"{action} can be replaced by another one of the same name"


def test_workflow_runs_everything_before_it_publishes() -> None:
    assert {".ci/run", "make dist", "make test-azure"} < set(COMMANDS)
    assert {job: JOBS[job].get("needs") for job in JOBS} == {
        "test": None,
        "azure": None,
        "audit": None,
        "build": ["test", "azure"],
        "publish": "build",
        "release": "publish",
    }
    assert JOBS["build"]["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert JOBS["publish"]["permissions"] == {"id-token": "write"}


def test_packages_and_their_bill_of_materials_are_attested_before_they_leave_the_build() -> None:
    assert JOBS["build"]["permissions"] == {"contents": "read", "id-token": "write", "attestations": "write"}
    steps = [(step.get("uses", step.get("run")).partition("@")[0], step.get("with")) for step in JOBS["build"]["steps"]]
    packages = "dist/*.whl\ndist/*.tar.gz\n"
    assert steps[-5:] == [
        ("make dist", None),
        ("actions/attest", {"subject-path": "dist/*"}),
        ("actions/attest", {"subject-path": packages, "sbom-path": "dist/pgqueue_tx.cdx.json"}),
        ("actions/upload-artifact", {"name": "packages", "path": packages}),
        ("actions/upload-artifact", {"name": "sbom", "path": "dist/*.cdx.json"}),
    ]


def test_everything_that_was_built_is_attached_to_the_release() -> None:
    download, create = JOBS["release"]["steps"]
    assert download["with"] == {"path": "dist", "merge-multiple": True}
    assert create["run"].endswith(" dist/*")


def test_known_vulnerabilities_are_looked_up_every_day_and_for_each_pull_request() -> None:
    assert "make audit" in COMMANDS
    assert {"schedule", "pull_request"} < AUDIT[True].keys()  # `on`, as YAML 1.1 reads it


def test_audit_without_a_network_fails_and_names_what_it_needs() -> None:
    environment = {**os.environ, "HTTPS_PROXY": "http://127.0.0.1:9"}
    refused = subprocess.run([ROOT / ".ci" / "audit"], env=environment, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert re.fullmatch("the audit needs PyPI's advisories, and https://.* cannot be reached\n", refused.stderr)


@pytest.mark.parametrize("folder", [".ci", "benchmarks", "docs", "examples", "models", "pgqueue"])
def test_rules_of_bandit_hold_outside_of_tests(folder: str) -> None:
    command = [sys.executable, "-m", "ruff", "check", "--select", "S", "--stdin-filename", f"{folder}/unsafe.py", "-"]
    unsafe = "import subprocess\n\nsubprocess.run('ls', shell=True)\n"
    checked = subprocess.run(command, cwd=ROOT, input=unsafe, capture_output=True, text=True, check=False)
    assert "S602" in checked.stdout


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
