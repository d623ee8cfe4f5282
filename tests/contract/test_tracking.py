"""The tracking id of a refusal is in the database's message, and so in the log of the server."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from pgqueue import Message, PGQueueError
from pgqueue.schema.files import definitions
from tests.contract.world import World


def settle_twice(world: World) -> None:
    received = world.locked("a")
    world.client.purge_queue(world.name)
    received.complete()


REFUSALS: dict[str, Callable[[World], object]] = {
    "PQ001": settle_twice,
    "PQ002": lambda world: world.client.queue("nowhere").send(Message(1)),
    "PQ003": lambda world: world.client.create_queue(world.name),
    "PQ007": lambda world: world.client.update_queue(world.name, max_delivery_count=-1),
}


@pytest.mark.parametrize("sqlstate", REFUSALS)
def test_a_refusal_has_the_tracking_id_that_the_database_gave_it(own: World, sqlstate: str) -> None:
    with pytest.raises(PGQueueError) as refusal:
        REFUSALS[sqlstate](own)
    assert refusal.value.sqlstate == sqlstate
    assert isinstance(refusal.value.__cause__, psycopg.Error)
    detail = refusal.value.__cause__.diag.message_detail
    assert f"Tracking id {refusal.value.tracking_id}." in str(detail)


def test_two_refusals_have_different_tracking_ids(own: World) -> None:
    found = set()
    for _ in range(2):
        with pytest.raises(PGQueueError) as refusal:
            own.client.create_queue(own.name)
        found.add(refusal.value.tracking_id)
    assert len(found) == 2


def test_every_refusal_in_sql_has_a_tracking_id() -> None:
    assert {each.name for each in definitions() if "raise exception using" in each.sql} == {"_refuse"}
