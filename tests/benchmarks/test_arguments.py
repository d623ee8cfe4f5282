"""Arguments of benchmarks that would measure nothing are refused before anything starts."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable

import pytest

from benchmarks.arguments import positive, whole


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
