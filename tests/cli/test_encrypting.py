"""Keys in the environment: commands and workers read encrypted bodies with them, and show none without."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from pgqueue import Message, QueueClient
from pgqueue.encryption import EncryptedBodies
from pgqueue.testing import Database
from tests.cli.command_line import CommandLine
from tests.cli.test_worker import worker
from tests.patience import eventually

KEY = "A" * 43 + "="


def test_commands_read_and_write_with_the_keys_of_the_environment(
    pgqueue: CommandLine, client: QueueClient, database: Database
) -> None:
    key = pgqueue("encryption", "generate-key").out.strip()
    keys = {"PGQUEUE_ENCRYPTION_KEYS": f"{key}, {KEY}"}
    for body in ('{"name": "Ada"}', "7"):
        assert pgqueue("send", "orders", body, **keys).code == 0
    assert pgqueue("send", "orders", "Ada", "--binary", **keys).code == 0
    with QueueClient(database.dsn, interceptors=[EncryptedBodies([key])]) as reader:
        assert [each.body for each in reader.queue("orders").peek(max_messages=9)] == [{"name": "Ada"}, 7, b"Ada"]
    shown = pgqueue("peek", "orders", "--json", **keys).document
    assert [each.get("body", each.get("binary_body")) for each in shown] == [{"name": "Ada"}, 7, "QWRh"]
    assert "Ada" in pgqueue("peek", "orders", **keys).out
    assert "Ada" in pgqueue("receive", "orders", "--abandon", **keys).out


def test_without_the_keys_commands_show_that_a_body_is_encrypted(pgqueue: CommandLine, database: Database) -> None:
    with QueueClient(database.dsn, interceptors=[EncryptedBodies([KEY])]) as client:
        client.create_queue("orders")
        client.queue("orders").send(Message("Ada"))
        client.create_schedule("daily", queue="orders", message=Message("Ada"), every=timedelta(days=1))
    assert "encrypted" in pgqueue("peek", "orders").out
    (document,) = pgqueue("peek", "orders", "--json").document
    assert document["encrypted_body"]
    assert not {"body", "binary_body"} & document.keys()
    assert "it is encrypted" in pgqueue("schedule", "show", "daily").out
    assert pgqueue("receive", "orders", "--abandon").code == 0
    keys = {"PGQUEUE_ENCRYPTION_KEYS": KEY}
    assert pgqueue("schedule", "show", "daily", "--json", **keys).document["message"]["body"] == "Ada"


@pytest.mark.parametrize("wrong", ["short", f"{KEY},{KEY}", ","])
def test_wrong_keys_are_an_error_that_does_not_show_them(pgqueue: CommandLine, client: QueueClient, wrong: str) -> None:
    ended = pgqueue("peek", "orders", PGQUEUE_ENCRYPTION_KEYS=wrong)
    assert ended.code == 2
    assert "PGQUEUE_ENCRYPTION_KEYS: keys" in ended.only_error
    assert KEY not in ended.err


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_worker_has_the_keys_and_the_interceptors(
    pgqueue: CommandLine, database: Database, tmp_path: Path, processes: str
) -> None:
    (tmp_path / "ward.py").write_text(
        """
from pathlib import Path
from pgqueue import Interceptor

class Noting(Interceptor):
    def handle(self, received, call):
        Path("noted").write_text(str(received.body))
        call(received)

interceptors = [Noting()]

def handle(message):
    Path("handled").write_text(message.body)
"""
    )
    with QueueClient(database.dsn, interceptors=[EncryptedBodies([KEY])]) as client:
        client.create_queue("orders")
        client.queue("orders").send(Message("Ada"))
    pgqueue.environment["PGQUEUE_ENCRYPTION_KEYS"] = KEY
    options = ("--interceptors", "ward:interceptors", "--processes", processes)
    with worker(pgqueue, "ward:handle", "orders", *options), QueueClient(database.dsn) as client:
        eventually(lambda: client.get_queue_runtime_properties("orders").ready == 0)
        eventually((tmp_path / "handled").exists)
    assert (tmp_path / "handled").read_text() == (tmp_path / "noted").read_text() == "Ada"


def test_a_list_of_interceptors_is_wanted(pgqueue: CommandLine, client: QueueClient, tmp_path: Path) -> None:
    (tmp_path / "ward.py").write_text("interceptors = 7\ndef handle(message): ...\n")
    ended = pgqueue("worker", "ward:handle", "orders", "--interceptors", "ward:interceptors")
    assert ended.code == 2
    assert "names no list" in ended.err
