"""Arguments of benchmarks that would measure nothing are refused before anything starts."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable

import pytest

from benchmarks.arguments import positive, whole
from benchmarks.earlier import existing_commit


@pytest.mark.parametrize(
    ("kind", "title", "texts"),
    [
        (positive, "number above 0", ["0", "-1", "soon", "nan", "inf"]),
        (whole, "whole number above 0", ["0", "-1", "1.5", "many", "٣"]),
    ],
)
def test_anything_else_is_refused(kind: Callable[[str], float], title: str, texts: list[str]) -> None:
    for text in texts:
        with pytest.raises(ArgumentTypeError, match=f"^'{text}' is not a {title}$"):
            kind(text)


def test_a_number_above_0_is_taken() -> None:
    assert positive("0.5") == 0.5
    assert whole("10") == 10


@pytest.mark.parametrize("text", ["", "no-such-branch", "--help", "HEAD:README.md"])
def test_a_commit_that_is_not_there_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=f"^'{text}' is not a commit of this repository: git log shows them$"):
        existing_commit(text)


def test_a_commit_is_taken() -> None:
    assert existing_commit("HEAD") == "HEAD"
