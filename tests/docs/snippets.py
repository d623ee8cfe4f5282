"""The fenced blocks of the pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCED = re.compile(
    r"^(?P<indent> *)```(?P<language>[^\s`]*)(?: title=\"(?P<title>[^\"]+)\")?[^\n`]*\n(?P<text>.*?)^(?P=indent)```",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Snippet:
    """A block: the page, which one of the page it is, its language, its title and its text."""

    page: str
    number: int
    language: str
    title: str | None
    text: str

    def __str__(self) -> str:
        return f"{self.page} {self.number} {self.language}"


def snippets() -> Iterator[Snippet]:
    """All blocks of README.md and of the pages in docs/."""
    for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]:
        page = str(path.relative_to(ROOT))
        for number, block in enumerate(FENCED.finditer(path.read_text()), 1):
            yield Snippet(page, number, block["language"], block["title"], block["text"])
