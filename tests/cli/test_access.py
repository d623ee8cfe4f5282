"""``pgqueue grant``, ``revoke`` and ``grants``."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from pgqueue.testing import Database
from tests.cli.command_line import CommandLine

pytestmark = pytest.mark.usefixtures("client")  # which creates the queue


@pytest.fixture
def role(database: Database) -> Iterator[str]:
    name = f"test_{uuid4().hex[:12]}"
    with database.connect(autocommit=True) as connection:
        connection.execute(f"create role {name}".encode())
        yield name
        connection.execute(f"drop role {name}".encode())


def listed(pgqueue: CommandLine, role: str) -> list[tuple[str, str | None]]:
    return [(each["may"], each["queue"]) for each in pgqueue("grants", "--json").document if each["role"] == role]


@pytest.mark.parametrize("right", ["send", "receive", "monitor", "admin"])
def test_a_right_is_given_shown_and_taken_back(pgqueue: CommandLine, role: str, right: str) -> None:
    of_a_queue = ["orders"] if right in ("send", "receive") else []
    granted = pgqueue("grant", right, *of_a_queue, role)
    assert granted.code == 0
    assert granted.out.startswith(f"{role} may ")
    assert listed(pgqueue, role) == [(right.upper(), "orders" if of_a_queue else None)]
    assert role in pgqueue("grants").out
    assert "done" in pgqueue("revoke", right, *of_a_queue, role, "--json").document
    assert listed(pgqueue, role) == []
    assert pgqueue("revoke", right, *of_a_queue, role).out.endswith("any more\n")


def test_an_access_error_names_what_is_wrong(pgqueue: CommandLine) -> None:
    assert "queue nowhere does not exist" in pgqueue("grant", "send", "nowhere", "public").only_error
    assert "existing role, not 'no such role'" in pgqueue("grant", "monitor", "no such role").only_error
    assert pgqueue("grant", "send", "orders").code == 2
