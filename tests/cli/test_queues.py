from __future__ import annotations

import os
import pty
import re
from datetime import timedelta

import pytest

from pgqueue import Message, QueueClient, QueueSettings, QueueStatus
from pgqueue.cli.settings import OPTIONS
from tests.cli.command_line import CommandLine

pytestmark = pytest.mark.core


def test_a_queue_is_created_with_the_given_options(pgqueue: CommandLine, client: QueueClient) -> None:
    created = pgqueue(
        "queue", "create", "parcels",
        "--lock-duration", "1m30s",
        "--max-delivery-count", "5",
        "--max-message-size", "64kB",
        "--status", "SEND_DISABLED",
        "--user-metadata", '{"team": "shipping"}',
        "--default-message-time-to-live", "2d",
        "--dead-lettering-on-message-expiration",
        "--requires-duplicate-detection",
        "--duplicate-detection-history-time-window", "1h",
        "--max-queue-length", "10000",
        "--retain-history", "7d",
        "--retain-errors", "5",
        "--auto-delete-on-idle", "1h",
        "--max-receive-rate", "0.5",
        "--max-concurrent", "3",
        "--priority-ageing", "1m",
    )  # fmt: skip
    assert created.code == 0
    assert "parcels" in created.out
    queue = client.get_queue("parcels")
    assert queue.lock_duration == timedelta(seconds=90)
    assert queue.max_delivery_count == 5
    assert queue.max_message_size == 65536
    assert queue.status is QueueStatus.SEND_DISABLED
    assert queue.user_metadata == {"team": "shipping"}
    assert queue.default_message_time_to_live == timedelta(days=2)
    assert queue.dead_lettering_on_message_expiration
    assert queue.requires_duplicate_detection
    assert queue.duplicate_detection_history_time_window == timedelta(hours=1)
    assert queue.max_queue_length == 10_000
    assert queue.retain_history == timedelta(days=7)
    assert queue.retain_errors == 5
    assert queue.auto_delete_on_idle == timedelta(hours=1)
    assert queue.max_receive_rate == 0.5
    assert queue.max_concurrent == 3
    assert queue.priority_ageing == timedelta(minutes=1)


def test_a_queue_created_without_options_has_the_defaults(pgqueue: CommandLine, client: QueueClient) -> None:
    created = pgqueue("queue", "create", "parcels", "--json").document
    plain = pgqueue("queue", "show", "orders", "--json").document
    own = ("name", "created_at", "updated_at")
    assert {name: value for name, value in created.items() if name not in own} == {
        name: plain[name] for name in created if name not in own
    }
    assert created["default_message_time_to_live"] is None
    assert created["requires_duplicate_detection"] is False
    assert created["duplicate_detection_history_time_window"] == 600


def test_limits_are_removed_by_name(pgqueue: CommandLine, client: QueueClient) -> None:
    client.update_queue("orders", max_receive_rate=2.5, max_concurrent=3)
    shown = pgqueue("queue", "show", "orders").out
    assert "2.5 a second" in shown
    updated = pgqueue(
        "queue", "update", "orders", "--max-receive-rate", "none", "--max-concurrent", "none", "--json"
    ).document
    assert updated["max_receive_rate"] is updated["max_concurrent"] is None


def test_a_queue_is_paused_and_resumed(pgqueue: CommandLine, client: QueueClient) -> None:
    client.queue("orders").send(Message("a"))
    assert pgqueue("queue", "pause", "orders", "--json").document["paused_at"] is not None
    assert "ACTIVE, paused" in pgqueue("queue", "list").out
    assert client.queue("orders").receive() == []
    resumed = pgqueue("queue", "resume", "orders")
    assert resumed.code == 0
    assert "queue orders resumed" in resumed.out
    assert len(client.queue("orders").receive()) == 1
    assert pgqueue("queue", "pause", "unknown").code == 1


def test_a_group_gets_limits_of_its_own(pgqueue: CommandLine, client: QueueClient) -> None:
    pgqueue("queue", "create", "jobs", "--max-concurrent-per-group", "1", "--max-receive-rate-per-group", "9", "--fair")
    created = client.get_queue("jobs")
    assert (created.fair, created.max_receive_rate_per_group) == (True, 9.0)
    client.queue("jobs").send_batch([Message(n, group_id="a") for n in range(4)])
    limited = pgqueue(
        "queue", "limit-group", "jobs", "a", "--max-concurrent", "2", "--max-receive-rate", "none", "--json"
    )
    assert limited.document == {"queue": "jobs", "group_id": "a", "max_concurrent": 2, "max_receive_rate": None}
    assert len(client.queue("jobs").receive(max_messages=9)) == 2
    assert "limits of group a of jobs set" in pgqueue("queue", "limit-group", "jobs", "a").out
    refused = pgqueue("queue", "limit-group", "orders", "a", "--max-concurrent", "2")
    assert refused.code == 2
    assert "must be one that is fair" in refused.only_error
    assert pgqueue("send", "jobs", "4", "--session-id", "b").code == 0
    assert [each.group_id for each in client.queue("jobs").receive(max_messages=9)] == ["b"]
    assert "its group in a fair queue" in " ".join(pgqueue("send", "--help").out.split())


def test_a_queue_is_made_to_forward_and_to_stop(pgqueue: CommandLine, client: QueueClient) -> None:
    updated = pgqueue("queue", "create", "parcels", "--forward-to", "orders", "--json").document
    assert (updated["forward_to"], updated["forward_dead_lettered_messages_to"]) == ("orders", None)
    pgqueue("queue", "update", "parcels", "--forward-to", "none", "--forward-dead-lettered-messages-to", "orders")
    shown = client.get_queue("parcels")
    assert (shown.forward_to, shown.forward_dead_lettered_messages_to) == (None, "orders")
    circle = pgqueue("queue", "update", "orders", "--forward-to", "parcels")
    assert circle.code == 2
    assert "forward_to must be" in circle.only_error


def test_every_setting_has_its_option() -> None:
    assert set(OPTIONS) == set(QueueSettings.__annotations__)


def test_a_queue_that_exists_is_refused_unless_that_is_fine(pgqueue: CommandLine, client: QueueClient) -> None:
    refused = pgqueue("queue", "create", "orders")
    assert refused.code == 1
    assert "--exist-ok" in refused.only_error
    assert pgqueue("queue", "create", "orders", "--exist-ok", "--json").document["name"] == "orders"
    assert pgqueue("queue", "create", "orders", "--exist-ok").out.startswith("queue orders exists\n")


def test_queues_are_listed_for_people_and_for_programs(pgqueue: CommandLine, client: QueueClient) -> None:
    client.create_queue("parcels", lock_duration=timedelta(minutes=5))
    assert [queue["name"] for queue in pgqueue("queue", "list", "--json").document] == ["orders", "parcels"]
    listed = pgqueue("queue", "list").out
    assert "orders" in listed
    assert "5m" in listed


@pytest.mark.parametrize("columns", [80, 120])
def test_the_list_shows_as_many_settings_as_fit(pgqueue: CommandLine, client: QueueClient, columns: int) -> None:
    assert "to live" not in pgqueue("queue", "list").out, "no queue has one"
    name = "shop/orders-of-all-branches"
    client.create_queue(
        name,
        default_message_time_to_live=timedelta(days=2),
        max_queue_length=10_000,
        requires_duplicate_detection=True,
        retain_history=timedelta(days=7),
        max_message_size=1 << 20,
        user_metadata={"note": "x" * 100},
    )
    listed = pgqueue("queue", "list", COLUMNS=str(columns)).out
    assert max(map(len, listed.splitlines())) <= columns
    assert name in listed
    assert "2d" in listed
    assert ("1,048,576" in listed) is (columns == 120)
    assert "…" not in listed


def test_no_queues_is_an_empty_list(pgqueue: CommandLine) -> None:
    assert pgqueue("queue", "list", "--json").document == []
    listed = pgqueue("queue", "list")
    assert listed.code == 0
    assert "pgqueue queue create" in listed.err


def test_a_queue_is_shown_with_its_contents(pgqueue: CommandLine, client: QueueClient) -> None:
    client.queue("orders").send_batch([Message(1), Message(2)])
    shown = pgqueue("queue", "show", "orders", "--json").document
    assert shown["lock_duration"] == 60.0
    assert shown["ready"] == 2
    assert (shown["deferred"], shown["expired"]) == (0, 0)
    told = pgqueue("queue", "show", "orders", COLUMNS="80").out
    for setting in ("oldest waits for", "deferred", "retain history", "default message time to live"):
        assert setting in told


def test_a_new_setting_is_shown_where_it_was_made(pgqueue: CommandLine, client: QueueClient) -> None:
    told = pgqueue("queue", "update", "orders", "--retain-history", "36h", COLUMNS="80").out
    assert re.search(r"retain history +1d12h", told)


def test_an_update_changes_the_given_options_and_nothing_else(pgqueue: CommandLine, client: QueueClient) -> None:
    client.update_queue("orders", max_message_size=1000, user_metadata={"team": "shop"})
    updated = pgqueue("queue", "update", "orders", "--lock-duration", "5m", "--json").document
    assert updated["lock_duration"] == 300.0
    assert updated["max_message_size"] == 1000
    assert updated["user_metadata"] == {"team": "shop"}


def test_none_and_null_take_the_bound_and_the_metadata_away(pgqueue: CommandLine, client: QueueClient) -> None:
    client.update_queue("orders", max_message_size=1000, user_metadata={"team": "shop"})
    taken = pgqueue("queue", "update", "orders", "--max-message-size", "none", "--user-metadata", "null", "--json")
    assert taken.document["max_message_size"] is None
    assert taken.document["user_metadata"] is None


def test_optional_settings_can_be_removed(pgqueue: CommandLine, client: QueueClient) -> None:
    client.update_queue(
        "orders",
        default_message_time_to_live=timedelta(days=1),
        dead_lettering_on_message_expiration=True,
        requires_duplicate_detection=True,
        max_queue_length=10,
        retain_history=timedelta(days=1),
    )
    updated = pgqueue(
        "queue", "update", "orders",
        "--default-message-time-to-live", "none",
        "--no-dead-lettering-on-message-expiration",
        "--no-requires-duplicate-detection",
        "--max-queue-length", "none",
        "--retain-history", "none",
        "--json",
    ).document  # fmt: skip
    for absent in ("default_message_time_to_live", "max_queue_length", "retain_history"):
        assert updated[absent] is None
    assert not updated["dead_lettering_on_message_expiration"]
    assert not updated["requires_duplicate_detection"]
    assert updated["duplicate_detection_history_time_window"] == 600


def test_an_update_of_nothing_is_wrong_use(pgqueue: CommandLine, client: QueueClient) -> None:
    ended = pgqueue("queue", "update", "orders")
    assert ended.code == 2
    assert "name at least one setting" in ended.only_error


def test_a_purge_leaves_the_queue_and_its_dead_letters(pgqueue: CommandLine, client: QueueClient) -> None:
    orders = client.queue("orders")
    orders.send_batch([Message(1), Message(2), Message(3)])
    orders.receive()[0].dead_letter("Unreadable")
    orders.receive()[0].defer()
    assert pgqueue("queue", "purge", "orders", "--yes", "--json").document == {"queue": "orders", "purged": 2}
    assert client.get_queue_runtime_properties("orders").dead_letters == 1


def test_a_deleted_queue_is_gone(pgqueue: CommandLine, client: QueueClient) -> None:
    client.queue("orders").send(Message(1))
    assert pgqueue("queue", "delete", "orders", "--yes", "--json").document == {"queue": "orders", "deleted": True}
    assert client.list_queues() == []


@pytest.mark.parametrize(("answer", "code", "left"), [("n", 1, 1), ("y", 0, 0)])
def test_a_person_is_asked_before_anything_is_deleted(
    pgqueue: CommandLine, client: QueueClient, answer: str, code: int, left: int
) -> None:
    keyboard, terminal = pty.openpty()
    with os.fdopen(keyboard, "wb") as typing, os.fdopen(terminal, "rb") as stdin:
        process = pgqueue.start("queue", "delete", "orders", stdin=stdin)
        typing.write(f"{answer}\n".encode())
        typing.flush()
        _, said = process.communicate(timeout=300)
    assert process.returncode == code
    assert b"Delete queue orders with 0 messages and 0 dead letters?" in said
    assert len(client.list_queues()) == left


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("create", "no spaces"), "the name of a queue"),
        (("create", "slow", "--lock-duration", "8d"), "lock_duration must be from 1 millisecond to 7 days"),
        (("create", "slow", "--lock-duration", "soon"), "write 30s, 5m or 1h30m"),
        (("create", "small", "--max-message-size", "tiny"), "write a number of bytes, 64kB or 1MB"),
        (("create", "eager", "--max-delivery-count", "0"), "--max-delivery-count"),
        (("create", "odd", "--status", "ASLEEP"), "send_disabled"),
        (("create", "odd", "--user-metadata", "{"), "not JSON"),
        (("create", "full", "--max-queue-length", "many"), "write digits, such as 10000"),
        (("create", "full", "--max-queue-length", "0"), "give more, or none"),
        (("create", "full", "--max-queue-length", "9" * 30), "max_queue_length must be a whole number below 2^63"),
        (("create", "brief", "--default-message-time-to-live", "0s"), "give more, or none"),
        (("create", "brief", "--default-message-time-to-live", "soon"), "write 30s, 5m or 1h30m"),
        (("create", "old", "--retain-history", "61d"), "retain_history must be from 1 minute to 60 days"),
        (("create", "odd", "--duplicate-detection-history-time-window", "1s"), "from 20 seconds to 7 days"),
        (("update", "orders", "--duplicate-detection-history-time-window", "none"), "write 30s, 5m or 1h30m"),
    ],
)
def test_a_bad_name_or_setting_is_wrong_use(pgqueue: CommandLine, arguments: tuple[str, ...], told: str) -> None:
    ended = pgqueue("queue", *arguments)
    assert ended.code == 2
    assert told in ended.only_error


@pytest.mark.parametrize("verb", ["show", "delete", "purge"])
def test_an_unknown_queue_is_a_failure_that_names_the_way_out(pgqueue: CommandLine, verb: str) -> None:
    ended = pgqueue("queue", verb, "nowhere")
    assert ended.code == 1
    assert "queue create" in ended.only_error
