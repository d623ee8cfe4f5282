"""What pages have from the code is what the code says now."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.generate import BLOCK, PAGES, filled
from docs.generate.text import ROOT


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_generated_page_is_up_to_date(page: Path) -> None:
    text = page.read_text()
    assert BLOCK.search(text)
    assert filled(text) == text, f"{page.relative_to(ROOT)} is not what the code says: run `make reference`"
