from __future__ import annotations

import pytest

from pgqueue.demo.killing import whole


@pytest.mark.parametrize(
    ("shown", "present", "whole_id"),
    [
        (1003, 1000, 1003),
        (998, 1000, 998),
        (2**32 - 6, 5 * 2**32 + 10, 5 * 2**32 - 6),
        (3, 5 * 2**32 - 5, 5 * 2**32 + 3),
    ],
)
def test_the_whole_of_a_transaction_id_is_the_one_nearest_to_the_present(
    shown: int, present: int, whole_id: int
) -> None:
    assert whole(shown, present) == whole_id
