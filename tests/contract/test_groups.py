"""Groups that take turns, and their limits, through every source."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pgqueue import Message
from pgqueue.errors import InvalidArgumentError, QueueNotFoundError
from tests.contract.world import World


def made_fair(world: World, **settings: Any) -> None:
    world.client.delete_queue(world.name)
    world.client.create_queue(world.name, fair=True, **settings)


def send(world: World, group: str, *bodies: Any) -> None:
    world.queue.send_batch([Message(body, group_id=group) for body in bodies])


def test_groups_take_turns(world: World) -> None:
    made_fair(world)
    send(world, "deep", *range(9))
    send(world, "other", "first")
    received = [world.queue.receive()[0] for _ in range(3)]
    assert [(message.group_id, message.body) for message in received] == [("deep", 0), ("other", "first"), ("deep", 1)]
    for message in received:
        message.complete()
    assert {message.group_id for message in world.queue.peek(max_messages=9)} == {"deep"}


def test_a_group_is_a_session_by_another_name(either: World) -> None:
    message = Message(1, group_id="a")
    assert message.session_id == message.group_id == Message(1, session_id="a").group_id == "a"
    assert message == Message(1, session_id="a")
    assert Message(1, session_id="a", group_id="a") == message
    with pytest.raises(InvalidArgumentError, match="session_id must be left out"):
        Message(1, session_id="a", group_id="b")
    message.group_id = "b"
    assert message.session_id == "b"
    assert [replace(message, session_id=name).group_id for name in ("c", None)] == ["c", None]
    assert replace(message, body=2).session_id == "b"


def test_limits_hold_for_each_group_until_one_gets_others(world: World) -> None:
    made_fair(world, max_concurrent_per_group=1)
    for group in "abc":
        send(world, group, 1, 2, 3)
    world.client.set_group_limits(world.name, "a", max_concurrent=2)
    world.client.set_group_limits(world.name, "b", max_concurrent=None, max_receive_rate=0.001)
    assert sorted((m.group_id, m.body) for m in world.queue.receive(max_messages=9)) == [
        ("a", 1),
        ("a", 2),
        ("b", 1),
        ("c", 1),
    ]
    assert world.queue.receive(max_messages=9) == []
    world.client.set_group_limits(world.name, "a")
    assert world.queue.receive(max_messages=9) == []
    world.client.set_group_limits(world.name, "a", max_concurrent=None)
    assert [message.body for message in world.queue.receive(max_messages=9)] == [3]


def test_limits_are_refused_where_no_group_has_them(either: World) -> None:
    with pytest.raises(InvalidArgumentError, match="must be one that is fair"):
        either.client.set_group_limits(either.name, "a", max_concurrent=1)
    with pytest.raises(QueueNotFoundError):
        either.client.set_group_limits("none", "a", max_concurrent=1)
    made_fair(either)
    with pytest.raises(InvalidArgumentError, match="max_concurrent must be from 0 to 1000"):
        either.client.set_group_limits(either.name, "a", max_concurrent=1001)
    for limit in ("max_concurrent", "max_receive_rate"):
        with pytest.raises(InvalidArgumentError, match=f"{limit} must be positive, or None for none at all"):
            either.client.set_group_limits(either.name, "a", **{limit: 0})
        with pytest.raises(InvalidArgumentError, match=f"{limit} must be a (whole )?number, not '3'"):
            either.client.set_group_limits(either.name, "a", **{limit: "3"})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no limit of a group is called max_concurrent_per_group"):
        either.client.set_group_limits(either.name, "a", max_concurrent_per_group=1)  # type: ignore[call-arg]


def test_whether_a_queue_is_fair_is_decided_when_it_is_created(either: World) -> None:
    for settings in ({"fair": True}, {"max_concurrent_per_group": 1}, {"max_receive_rate_per_group": 2.5}):
        either.client.delete_queue(either.name)
        created = either.client.create_queue(either.name, **settings)
        assert created.fair
        assert all(getattr(either.client.get_queue(either.name), name) == value for name, value in settings.items())
    with pytest.raises(InvalidArgumentError, match="fair must be that of the creation"):
        either.client.update_queue(either.name, fair=False)
    changed = either.client.update_queue(either.name, max_concurrent_per_group=3, max_receive_rate_per_group=None)
    assert (changed.max_concurrent_per_group, changed.max_receive_rate_per_group) == (3, None)
