"""Arguments of benchmarks that would measure nothing are refused before anything starts."""

from __future__ import annotations

from argparse import ArgumentTypeError

import pytest

from benchmarks.arguments import positive, whole


@pytest.mark.parametrize("text", ["0", "-1", "soon", "nan", "inf"])
def test_a_number_that_is_not_above_0_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=f"^'{text}' is not a number above 0$"):
        positive(text)


def test_a_fraction_is_a_number_above_0() -> None:
    assert positive("0.5") == 0.5


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", "٣"])
def test_anything_but_a_whole_number_above_0_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=f"^'{text}' is not a whole number above 0$"):
        whole(text)


def test_a_whole_number_above_0_is_taken() -> None:
    assert whole("10") == 10
