"""The tests of the Azure SDK that the gateway does not pass, from the table of their reasons."""

from __future__ import annotations

import tomllib

from docs.generate.text import ROOT, code, table

CANNOT = ROOT / "tests" / "gateway" / "azure" / "cannot.toml"


def azure_tests() -> str:
    """A row for each reason."""
    reasons = tomllib.loads(CANNOT.read_text())
    return table(["reason", "tests"], ([why, code(_names(files))] for why, files in reasons.items()))


def _names(files: dict[str, list[str]]) -> list[str]:
    """The names, once where the asynchronous test has the same."""
    return sorted({name for names in files.values() for name in names})
