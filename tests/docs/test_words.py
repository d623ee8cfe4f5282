"""Words that people write and read: the pages stay short enough to be read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/**/*.md")]
AT_MOST = 60_000

#: Parts that programs write, and code, which runs in tests.
GENERATED = re.compile(r"<!-- (?:generated: |begin )[^>]* -->\n.*?<!-- end[^>]* -->", re.DOTALL)
CODE = re.compile(r"^( *)```.*?^\1```$", re.DOTALL | re.MULTILINE)


def words(page: Path) -> int:
    return len(CODE.sub("", GENERATED.sub("", page.read_text())).split())


def counted() -> Iterator[str]:
    """The pages with the most words, and the sum: ``python -m tests.docs.test_words``."""
    longest = sorted(PAGES, key=words, reverse=True)
    yield from (f"{words(page):>6} {page.relative_to(ROOT)}" for page in longest)
    yield f"{sum(map(words, PAGES)):>6} words by hand"


def test_words_by_hand_are_few() -> None:
    assert sum(map(words, PAGES)) <= AT_MOST, "shorten a page: `python -m tests.docs.test_words` lists them"


def test_generated_parts_and_code_are_not_counted(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "two words\n```sh\nmake test\n```\n<!-- generated: x -->\nmany\n<!-- end -->\n<!-- begin W1 -->\na\n<!-- end W1 -->\nthree"
    )
    assert words(page) == 3


if __name__ == "__main__":
    print("\n".join(counted()))
