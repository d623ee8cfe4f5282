"""``python -m docs.words``, or ``make words``: how many words of README, CHANGELOG and docs/ are written by hand.

Generated parts are not counted, nor is code, which runs in tests.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/**/*.md")]

GENERATED = re.compile(r"<!-- (?:generated: |begin )[^>]* -->\n.*?<!-- end[^>]* -->", re.DOTALL)
#: The text between two spaces, unless it is a bar of a table, a rule or a dash.
WORD = re.compile(r"\S*\w\S*")
CODE = re.compile(r"^( *)```.*?^\1```$", re.DOTALL | re.MULTILINE)


def words(page: Path) -> int:
    return len(WORD.findall(CODE.sub("", GENERATED.sub("", page.read_text()))))


def total() -> int:
    return sum(map(words, PAGES))


def report() -> Iterator[str]:
    """The pages, the longest first, and the sum."""
    for page in sorted(PAGES, key=words, reverse=True):
        yield f"{words(page):>6} {page.relative_to(ROOT)}\n"
    yield f"{total():>6} words by hand\n"


if __name__ == "__main__":
    sys.stdout.writelines(report())
