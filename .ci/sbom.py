"""Write the bill of materials of the published packages as CycloneDX: ``sbom.py dist/pgqueue_tx.cdx.json``.

uv resolves the project at the versions of requirements.lock, and exports them. Packages that only extras need have the
scope ``optional``. The file depends on the lock and uv alone: it has no date, and no archive without a locked hash.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[1]
ENTRY = re.compile(
    r"^(?P<name>[a-z0-9-]+)==(?P<version>[^ ]+)(?P<marker>[^\\]*) \\\n(?P<hashes>(?: +--hash.*\n)+)", re.MULTILINE
)


def main(target: str) -> None:
    entries = list(ENTRY.finditer((ROOT / "requirements.lock").read_text()))
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch)
        constraints = [f"{entry['name']}=={entry['version']}{entry['marker']}" for entry in entries]
        settings = f"\n[tool.uv]\nconstraint-dependencies = {json.dumps(constraints)}\n"
        (project / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text() + settings)
        uv(project, "lock")
        core, everything = export(project), export(project, "--all-extras")
    hashes = {f"pkg:pypi/{entry['name']}@{entry['version']}": entry["hashes"] for entry in entries}
    Path(target).write_text(json.dumps(bill(core, everything, hashes), indent=2) + "\n")


def export(project: Path, *options: str) -> dict[str, Any]:
    return dict(json.loads(uv(project, "export", "--frozen", "--no-dev", "--format", "cyclonedx1.5", *options)))


def uv(project: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "uv", "--quiet", *arguments, "--python", sys.executable]
    done = subprocess.run(command, cwd=project, check=False, capture_output=True, text=True)
    if done.returncode:
        give_up(f"`uv {arguments[0]}` failed:\n{done.stderr.strip()}")
    return done.stdout


def bill(core: dict[str, Any], everything: dict[str, Any], hashes: dict[str, str]) -> dict[str, Any]:
    """The bill of everything, as it is each time."""
    required = {component["purl"] for component in core["components"]}
    for component in everything["components"]:
        component["scope"] = "required" if component["purl"] in required else "optional"
        component["externalReferences"] = [
            archive
            for archive in component["externalReferences"]
            if archive["hashes"][0]["content"] in hashes.get(component["purl"], "")
        ]
        if not component["externalReferences"]:
            give_up(f"requirements.lock has no hash of {component['purl']}: `make lock` writes it")
    del everything["metadata"]["timestamp"], everything["serialNumber"]
    root = everything["metadata"]["component"]
    root["purl"] = f"pkg:pypi/{root['name']}@{root['version']}"
    return {**everything, "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(everything)).urn}


def give_up(reason: str) -> NoReturn:
    raise SystemExit(f"no bill of materials: {reason}")


if __name__ == "__main__":
    main(*sys.argv[1:])
