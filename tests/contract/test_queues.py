from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pgqueue import Message, QueueStatus
from pgqueue.errors import (
    InvalidArgumentError,
    PGQueueError,
    QueueAlreadyExistsError,
    QueueDisabledError,
    QueueNotFoundError,
)
from tests.contract.world import MINUTE, SECOND, World

BAD_NAMES = {
    "nothing": "",
    "a space": "two words",
    "a blank end": "orders ",
    "a hyphen first": "-orders",
    "a dot last": "orders.",
    "a quote": "o'rders",
    "a semicolon": "orders;",
    "a line break": "orders\n",
    "an umlaut": "bestellungen-für",
    "too long": "q" * 261,
    "a number": 7,
    "None": None,
    "bytes": b"orders",
    "a NUL": "ord\0ers",
    "half a surrogate pair": "\ud800",
}

BAD_SETTINGS: dict[str, tuple[str, Any]] = {
    "no lock duration": ("lock_duration", timedelta(0)),
    "a negative lock duration": ("lock_duration", -SECOND),
    "an endless lock duration": ("lock_duration", timedelta(days=8)),
    "a lock duration in seconds": ("lock_duration", 60),
    "no deliveries": ("max_delivery_count", 0),
    "negative deliveries": ("max_delivery_count", -1),
    "deliveries as text": ("max_delivery_count", "5"),
    "half a delivery": ("max_delivery_count", 2.5),
    "deliveries beyond all bounds": ("max_delivery_count", 2**40),
    "a flag for a count": ("max_delivery_count", True),
    "a size of nothing": ("max_message_size", 0),
    "a negative size": ("max_message_size", -1),
    "a size as text": ("max_message_size", "1 MB"),
    "a size beyond all bounds": ("max_message_size", 2**70),
    "an unknown status": ("status", "PAUSED"),
    "a status in small letters": ("status", "active"),
    "a status that is none": ("status", 7),
}


def test_a_queue_is_created_with_the_defaults(own: World) -> None:
    created = own.client.create_queue(f"{own.name}/plain")
    assert created.name == f"{own.name}/plain"
    assert created.lock_duration == MINUTE
    assert created.max_delivery_count == 10
    assert created.max_message_size is None
    assert created.status is QueueStatus.ACTIVE
    assert created.user_metadata is None
    assert created.created_at.tzinfo is not None
    assert own.client.get_queue(created.name) == created


def test_a_queue_is_created_with_every_setting(own: World) -> None:
    settings: dict[str, Any] = {
        "lock_duration": timedelta(milliseconds=1500),
        "max_delivery_count": 3,
        "max_message_size": 2**40,
        "status": QueueStatus.SEND_DISABLED,
        "user_metadata": {"owner": "würde", "since": [2013, None]},
    }
    created = own.client.create_queue(f"{own.name}/set", **settings)
    assert {setting: getattr(created, setting) for setting in settings} == settings
    assert own.client.get_queue(created.name) == created


def test_a_status_can_be_given_by_its_name(either: World) -> None:
    assert either.client.update_queue(either.name, status="DISABLED").status is QueueStatus.DISABLED


@pytest.mark.parametrize("name", ["a", "A-1", "orders/eu.west_2", "0", "q" * 260])
def test_a_good_name_is_good(either: World, name: str) -> None:
    either.client.create_queue(name, exist_ok=True)
    assert either.client.queue(name).send(Message(1)) > 0
    either.client.delete_queue(name)


def test_a_name_that_is_taken_is_refused_and_the_queue_is_left_alone(own: World) -> None:
    before = own.client.get_queue(own.name)
    with pytest.raises(QueueAlreadyExistsError, match=f'"?{own.name}"? exists already') as refusal:
        own.client.create_queue(own.name, max_delivery_count=3)
    assert refusal.value.sqlstate == "PQ003"
    assert own.client.get_queue(own.name) == before


def test_with_exist_ok_the_queue_that_exists_is_returned_as_it_is(own: World) -> None:
    before = own.client.get_queue(own.name)
    assert own.client.create_queue(own.name, max_delivery_count=3, exist_ok=True) == before


def test_only_the_settings_that_are_given_are_changed(own: World) -> None:
    name = f"{own.name}/changing"
    own.client.create_queue(name, max_message_size=100, user_metadata=[1])
    changed = own.client.update_queue(name, lock_duration=SECOND, max_delivery_count=2)
    assert (changed.lock_duration, changed.max_delivery_count) == (SECOND, 2)
    assert (changed.max_message_size, changed.user_metadata) == (100, [1])
    assert changed.updated_at > changed.created_at
    changed = own.client.update_queue(name, max_message_size=None, user_metadata=None, status=QueueStatus.DISABLED)
    assert (changed.max_message_size, changed.user_metadata, changed.status) == (None, None, QueueStatus.DISABLED)
    assert (changed.lock_duration, changed.max_delivery_count) == (SECOND, 2)
    assert own.client.get_queue(name) == changed


def test_a_new_lock_duration_holds_for_the_next_receive(either: World) -> None:
    either.send("first", "second")
    first = either.receive()
    either.client.update_queue(either.name, lock_duration=5 * MINUTE)
    second = either.receive()
    assert first.locked_until is not None
    assert second.locked_until is not None
    assert second.locked_until - first.locked_until > 3 * MINUTE
    first.complete()


def test_queues_are_listed_by_name(either: World) -> None:
    names = [f"{either.name}/{letter}" for letter in "cab"]
    for name in names:
        either.client.create_queue(name)
    listed = [queue.name for queue in either.client.list_queues() if queue.name.startswith(f"{either.name}/")]
    assert listed == sorted(names)
    (own,) = [queue for queue in either.client.list_queues() if queue.name == either.name]
    assert own == either.client.get_queue(either.name)


def test_a_deleted_queue_is_gone_with_everything_in_it(own: World) -> None:
    own.locked("locked")
    own.locked("dead").dead_letter("Bad")
    own.locked("scheduled").abandon(delay=MINUTE)
    own.send("ready")
    own.client.delete_queue(own.name)
    with pytest.raises(QueueNotFoundError):
        own.client.get_queue(own.name)
    own.client.create_queue(own.name)
    assert own.found() == []
    assert own.dead() == []
    properties = own.client.get_queue_runtime_properties(own.name)
    assert (properties.ready, properties.locked, properties.scheduled, properties.dead_letters) == (0, 0, 0, 0)


def test_dead_letters_cannot_be_deleted_as_a_queue_and_none_is_lost_by_trying(either: World) -> None:
    either.locked("dead").dead_letter("Bad")
    with pytest.raises(InvalidArgumentError, match="dead letters cannot be dropped"):
        either.client.delete_queue(f"{either.name}/$deadletterqueue")
    assert [message.body for message in either.dead()] == ["dead"]


@pytest.mark.parametrize("look", ["get_queue", "get_queue_runtime_properties"])
def test_dead_letters_have_no_settings_of_their_own(either: World, look: str) -> None:
    with pytest.raises(InvalidArgumentError, match="name their queue"):
        getattr(either.client, look)(f"{either.name}/$deadletterqueue")


def test_purging_deletes_all_but_the_dead_letters_and_counts(own: World) -> None:
    own.locked("dead").dead_letter("Bad")
    own.locked("scheduled").abandon(delay=MINUTE)
    held = own.locked("locked")
    own.send("ready", "ready")
    assert own.client.purge_queue(own.name) == 4
    assert own.found() == []
    assert [message.body for message in own.dead()] == ["dead"]
    with pytest.raises(PGQueueError, match="is lost"):
        held.complete()
    assert own.client.purge_queue(own.name) == 0


def test_the_messages_of_a_queue_are_counted_by_state(own: World) -> None:
    own.locked("dead").dead_letter("Bad")
    own.locked("scheduled").abandon(delay=MINUTE)
    own.locked("locked")
    own.send("ready", "ready")
    there = own.client.get_queue_runtime_properties(own.name)
    assert there.name == own.name
    assert (there.ready, there.locked, there.scheduled, there.dead_letters) == (2, 1, 1, 1)
    first_ready = next(message for message in own.found() if message.body == "ready")
    assert there.oldest_enqueued_time == first_ready.enqueued_time
    own.client.purge_queue(own.name)
    assert own.client.get_queue_runtime_properties(own.name).oldest_enqueued_time is None


def test_the_size_of_a_queue_is_that_of_its_bodies_and_properties_without_dead_letters(own: World) -> None:
    own.locked("dead").dead_letter("Bad")
    assert own.client.get_queue_runtime_properties(own.name).size_in_bytes == 0
    own.queue.send(Message(b"x" * 1_000))
    own.queue.schedule(Message(b"x" * 1_000), at=datetime.now(UTC) + MINUTE)
    size = own.client.get_queue_runtime_properties(own.name).size_in_bytes
    assert 2_000 <= size <= 2_020
    own.queue.send(Message(b"", application_properties={"a": "x" * 100}))
    sizes = {each.name: each.size_in_bytes for each in own.client.list_queues_runtime_properties()}
    assert size + 100 <= sizes[own.name] <= size + 150


@pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES)
def test_a_bad_name_is_refused_with_what_a_good_one_is(either: World, name: Any) -> None:
    with pytest.raises(InvalidArgumentError) as refusal:
        either.client.create_queue(name)
    assert str(refusal.value).startswith("the name of a queue must be ")
    assert refusal.value.sqlstate == "PQ007"
    assert refusal.value.is_transient is False


@pytest.mark.parametrize(("setting", "value"), BAD_SETTINGS.values(), ids=BAD_SETTINGS)
def test_a_bad_setting_is_refused_with_what_a_good_one_is(either: World, setting: str, value: Any) -> None:
    before = either.client.get_queue(either.name)
    refused_calls: list[Callable[[], object]] = [
        lambda: either.client.create_queue(f"{either.name}/bad", **{setting: value}),
        lambda: either.client.update_queue(either.name, **{setting: value}),
    ]
    for refused in refused_calls:
        with pytest.raises(InvalidArgumentError) as refusal:
            refused()
        assert setting in str(refusal.value)
        assert "must be" in str(refusal.value)
        assert refusal.value.sqlstate == "PQ007"
    with pytest.raises(QueueNotFoundError):
        either.client.get_queue(f"{either.name}/bad")
    assert either.client.get_queue(either.name) == before


@pytest.mark.parametrize("setting", ["lock_duration", "max_delivery_count", "status"])
def test_a_setting_that_has_no_absence_cannot_be_none(either: World, setting: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{setting} cannot be None"):
        either.client.update_queue(either.name, **{setting: None})


def test_metadata_that_is_not_json_is_refused(either: World) -> None:
    refused_calls: list[Callable[[], object]] = [
        lambda: either.client.create_queue(f"{either.name}/bad", user_metadata={"since": {1}}),
        lambda: either.client.update_queue(either.name, user_metadata={"since": {1}}),
    ]
    for refused in refused_calls:
        with pytest.raises(InvalidArgumentError, match=r"user_metadata\['since'\] is set"):
            refused()


UNKNOWN = "no-such-queue"

VERBS: dict[str, Callable[[World], object]] = {
    "get": lambda world: world.client.get_queue(UNKNOWN),
    "runtime properties": lambda world: world.client.get_queue_runtime_properties(UNKNOWN),
    "update": lambda world: world.client.update_queue(UNKNOWN, max_delivery_count=3),
    "delete": lambda world: world.client.delete_queue(UNKNOWN),
    "purge": lambda world: world.client.purge_queue(UNKNOWN),
    "send": lambda world: world.client.queue(UNKNOWN).send(Message(1)),
    "send_batch": lambda world: world.client.queue(UNKNOWN).send_batch([Message(1)]),
    "receive": lambda world: world.client.queue(UNKNOWN).receive(),
    "receive with patience": lambda world: world.client.queue(UNKNOWN).receive(wait=MINUTE),
    "receive_and_delete": lambda world: world.client.queue(UNKNOWN).receive_and_delete(),
    "peek": lambda world: world.client.queue(UNKNOWN).peek(),
    "peek dead letters": lambda world: world.client.queue(UNKNOWN).dead_letters.peek(),
    "resubmit": lambda world: world.client.queue(UNKNOWN).dead_letters.resubmit(),
    "receiver": lambda world: next(iter(world.client.queue(UNKNOWN).receiver())),
}


@pytest.mark.parametrize("verb", VERBS)
def test_an_unknown_queue_is_refused_by_its_name_and_with_a_remedy(own: World, verb: str) -> None:
    with pytest.raises(QueueNotFoundError) as refusal:
        VERBS[verb](own)
    assert "no-such-queue" in str(refusal.value)
    assert "does not exist" in str(refusal.value)
    assert "create" in str(refusal.value).lower()
    assert refusal.value.sqlstate == "PQ002"
    assert refusal.value.is_transient is False


def test_every_settlement_of_a_message_of_a_deleted_queue_is_refused(either: World) -> None:
    received = either.several_locked(6)
    either.client.delete_queue(either.name)
    settlements: list[Callable[[], object]] = [
        received[0].complete,
        received[1].abandon,
        lambda: received[2].dead_letter("Bad"),
        received[3].renew_lock,
        lambda: either.queue.complete_batch(received[4:5]),
        lambda: either.queue.renew_lock_batch(received[5:6]),
    ]
    for settle in settlements:
        with pytest.raises(QueueNotFoundError, match=either.name):
            settle()


@pytest.mark.parametrize(
    ("status", "sends", "receives"),
    [
        (QueueStatus.ACTIVE, True, True),
        (QueueStatus.DISABLED, False, False),
        (QueueStatus.SEND_DISABLED, False, True),
        (QueueStatus.RECEIVE_DISABLED, True, False),
    ],
)
def test_a_status_forbids_sends_or_receives(either: World, status: QueueStatus, sends: bool, receives: bool) -> None:
    held = either.locked("held")
    either.send("waiting", "waiting")
    either.client.update_queue(either.name, status=status)
    verbs: list[tuple[bool, Callable[[], object]]] = [
        (sends, lambda: either.queue.send(Message(1))),
        (sends, lambda: either.queue.send_batch([Message(1)])),
        (receives, either.queue.receive),
        (receives, either.queue.receive_and_delete),
    ]
    for allowed, verb in verbs:
        if allowed:
            assert verb()
        else:
            with pytest.raises(QueueDisabledError, match=f"{either.name}.* has the status {status}.*ACTIVE") as refusal:
                verb()
            assert refusal.value.sqlstate == "PQ004"
    held.complete()
    assert either.queue.peek()
