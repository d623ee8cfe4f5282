"""The list of decisions, from their titles."""

from __future__ import annotations

from docs.generate.text import ROOT, table


def decisions() -> str:
    pages = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
    return table(["", ""], (_row(page.name, page.read_text().partition("\n")[0]) for page in pages))


def _row(name: str, heading: str) -> list[str]:
    number, _, title = heading.removeprefix("# ").partition(". ")
    return [number, f"[{title}]({name})"]
