"""Rights are given, listed and taken back."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from pgqueue import Grant
from pgqueue.errors import InvalidArgumentError, QueueNotFoundError
from tests.contract.world import World


@pytest.fixture
def role(either: World) -> Iterator[str]:
    name = f"test_{uuid4().hex[:12]}"
    either.run(f"create role {name}")
    yield name
    either.run(f"drop role {name}")


def rights(world: World, role: str) -> list[Grant]:
    return [grant for grant in world.client.list_grants() if grant.role == role]


@pytest.mark.parametrize("right", ["SEND", "RECEIVE"])
def test_a_right_to_a_queue_is_given_once_and_taken_back(either: World, role: str, right: str) -> None:
    grant = getattr(either.client, f"grant_{right.lower()}")
    revoke = getattr(either.client, f"revoke_{right.lower()}")
    for _ in range(2):
        grant(either.name, role)
        assert rights(either, role) == [Grant(role, right, either.name)]  # type: ignore[arg-type]
    for _ in range(2):
        revoke(either.name, role)
        assert rights(either, role) == []
    with pytest.raises(QueueNotFoundError):
        grant("nowhere", role)
    with pytest.raises(InvalidArgumentError, match="role must be the name of an existing role, not 'another role'"):
        grant(either.name, "another role")
    with pytest.raises(InvalidArgumentError, match="the name of a role must be a str, not 7"):
        grant(either.name, 7)


@pytest.mark.parametrize("right", ["MONITOR", "ADMIN"])
def test_a_right_to_all_queues_is_given_once_and_taken_back(either: World, role: str, right: str) -> None:
    for _ in range(2):
        getattr(either.client, f"grant_{right.lower()}")(role)
        assert rights(either, role) == [Grant(role, right, None)]  # type: ignore[arg-type]
    for _ in range(2):
        getattr(either.client, f"revoke_{right.lower()}")(role)
        assert rights(either, role) == []
