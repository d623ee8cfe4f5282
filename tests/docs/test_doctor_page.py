"""The page about the doctor lists every check, each once, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pgqueue.doctor.registry import CHECKS, INVARIANTS, NOT_INSTALLED

pytestmark = pytest.mark.core

PAGE = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text()


def test_every_check_is_on_the_page() -> None:
    listed = re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE)
    assert sorted(listed) == sorted(check.name for check in (NOT_INSTALLED, *CHECKS, INVARIANTS))
