"""Words that people write and read: the pages stay short enough to be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.words import total, words

pytestmark = pytest.mark.core

#: A new feature brings its page, and pays with the length of others where it can.
AT_MOST = 60_000


def test_words_by_hand_are_few() -> None:
    assert total() <= AT_MOST, "shorten a page: `make words` lists them"


def test_generated_parts_and_code_are_not_counted(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    generated = "<!-- generated: x -->\nmany\n<!-- end -->\n<!-- begin W1 -->\na\n<!-- end W1 -->\n"
    page.write_text(f"two words\n```sh\nmake test\n```\n{generated}three")
    assert words(page) == 3
