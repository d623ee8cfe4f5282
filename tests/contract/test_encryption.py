"""Encrypted bodies: read with the keys, nowhere else, and nothing of them in an error, a log or a table."""

from __future__ import annotations

import base64
import copy
import logging
import pickle
import subprocess
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.sql import SQL, Identifier

from pgqueue import JsonPathFilter, Message, QueueClient, Worker
from pgqueue.embedded import wheel_binaries
from pgqueue.encryption import EncryptedBodies, _Key
from pgqueue.errors import (
    InvalidArgumentError,
    MessageNotReadableError,
    MessageNotSerializableError,
    MessageSizeExceededError,
)
from pgqueue.model.body_type import BodyType
from pgqueue.model.cipher import MARK, is_encrypted
from pgqueue.model.encoding import encode_body
from tests.contract.intercepting import interceptor
from tests.contract.test_interceptors import SENDS, send_by, tagged
from tests.contract.world import World
from tests.patience import eventually

SECRET = "plaintext-Zürich-4711"
KEY, NEWER = (base64.urlsafe_b64encode(bytes(range(first, first + 32))).decode() for first in (0, 100))

json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=5,
)


@dataclass
class Patient:
    name: str
    age: int


@contextmanager
def encrypting(world: World, *keys: str, require: bool = False, dsn: str | None = None) -> Iterator[QueueClient]:
    bodies = EncryptedBodies(keys or [KEY], require=require)
    with world.sources.made_of(dsn or world.database.dsn, interceptors=[bodies]) as client:
        yield client


def places_of(world: World, text: str) -> list[str]:
    """The tables of the database in which a text is found, also as bytes."""
    tables = world.look(
        "select relname from pg_class where relnamespace = 'pgqueue'::regnamespace and relkind in ('r', 'p') order by 1"
    )
    inside = "select from pgqueue.{} as row where strpos(row::text, %s) > 0 or strpos(row::text, %s) > 0"
    return [name for (name,) in tables if world.look(SQL(inside).format(Identifier(name)), text, text.encode().hex())]


@given(json | st.binary())
def test_any_body_comes_back(body: Any) -> None:
    encrypted = BodyType(None, EncryptedBodies([KEY]))
    text, binary = encode_body(body, encrypted)
    assert text is None
    assert binary is not None
    assert binary.startswith(MARK)
    assert encrypted.read(binary) == body


@given(st.data())
def test_a_changed_bit_is_never_read(data: st.DataObject) -> None:
    bodies = EncryptedBodies([KEY], require=True)
    sealed = bytearray(bodies.encrypt(SECRET))
    place = data.draw(st.integers(0, 8 * len(sealed) - 1))
    sealed[place // 8] ^= 1 << place % 8
    with pytest.raises(ValueError, match="it is"):
        bodies.decrypt(bytes(sealed))
    cut = data.draw(st.integers(0, len(sealed) - 1))
    with pytest.raises(ValueError, match="it is"):
        bodies.decrypt(bodies.encrypt(SECRET)[:cut])


@pytest.mark.parametrize(
    ("key", "text", "beside", "sealed"),
    [
        (b"\1", b"XAES-256-GCM", b"", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"),
        (b"\3", b"XAES-256-GCM", b"c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"),
    ],
)
def test_the_construction_is_xaes(key: bytes, text: bytes, beside: bytes, sealed: str) -> None:
    """The vectors of https://c2sp.org/XAES-256-GCM."""
    nonce = b"ABCDEFGHIJKLMNOPQRSTUVWX"
    assert _Key(key * 32).cipher(nonce).encrypt(nonce[12:], text, beside).hex() == sealed


def test_no_two_bodies_are_encrypted_alike() -> None:
    bodies = EncryptedBodies([KEY])
    assert len({bodies.encrypt(SECRET) for _ in range(100)}) == 100


@pytest.mark.parametrize("how", SENDS)
def test_nothing_of_a_body_is_in_the_database(either: World, how: str) -> None:
    with encrypting(either) as client:
        queue = client.queue(either.name)
        queue.send(Message(SECRET))
        send_by(how, client, either)
        assert how in [each.body for each in queue.peek(max_messages=9)]
        for received in queue.receive(max_messages=1):
            received.abandon()
        for received in queue.receive(max_messages=1):
            received.dead_letter("Unwanted")
        for received in queue.dead_letters.receive():
            assert received.body == SECRET
            received.abandon()
    assert places_of(either, SECRET) == []
    assert places_of(either, either.name) != []
    assert all(is_encrypted(each.raw_body) for each in either.found())


LOG_ALL = ("log_statement = 'all'", "log_min_duration_statement = 0", "log_parameter_max_length_on_error = -1")


def test_nothing_of_a_body_is_in_the_servers_log_or_in_a_dump(either: World) -> None:
    secret, plain = f"plaintext-{uuid4()}", f"plaintext-{uuid4()}"
    with psycopg.connect(either.database.direct, autocommit=True) as connection:
        for setting in LOG_ALL:
            connection.execute(f"alter database {either.database.name} set {setting}")
        (directory,) = connection.execute("show data_directory").fetchone() or ("",)
    log = Path(directory).parent / "log"
    if not log.is_file():
        pytest.skip("PGQUEUE_TEST_DSN names a server whose log is not on this machine")
    either.client.update_queue(either.name, max_message_size=1024)
    with encrypting(either, dsn=either.database.direct) as client:  # PgBouncer keeps sessions that log nothing
        queue = client.queue(either.name)
        queue.send_batch([Message([secret]), Message(secret.encode())])
        with pytest.raises(MessageSizeExceededError):
            queue.send(Message(secret * 100))
        queue.send(Message(secret))
        for received in queue.receive(max_messages=3):
            received.dead_letter("Unwanted")
    with either.sources.made_of(either.database.direct) as client:
        client.queue(either.name).send(Message(plain))
    dump = subprocess.run([str(wheel_binaries() / "pg_dump"), either.database.direct], check=True, capture_output=True)
    for text in (log.read_text(errors="replace"), dump.stdout.decode()):
        assert plain in text, "it is looked for in the right place"
        assert not any(form in text for form in (secret, secret.encode().hex()))


def test_a_body_is_read_wherever_a_message_is(either: World) -> None:
    with encrypting(either) as client:
        queue = client.queue(either.name)
        number = queue.send(Message([SECRET]))
        queue.send(Message(b"bytes \x00"))
        assert [each.body for each in queue.peek(max_messages=9)] == [[SECRET], b"bytes \x00"]
        (received,) = queue.receive()
        received.postpone(timedelta(0), body={"again": SECRET})
        with queue.receiver() as receiver:
            received = next(iter(receiver))
        assert received.body == {"again": SECRET}
        received.defer()
        (received,) = queue.receive_deferred([number])
        assert received.body == {"again": SECRET}
        received.dead_letter("Unwanted")
        assert [each.body for each in queue.dead_letters.peek()] == [{"again": SECRET}]
        assert [each.body for each in queue.receive_and_delete()] == [b"bytes \x00"]
    assert places_of(either, SECRET) == []


def test_a_schedule_shows_its_message_to_who_has_the_keys(either: World) -> None:
    with encrypting(either) as client:
        made = client.create_schedule(either.name, queue=either.name, message=Message(SECRET), every=timedelta(days=1))
        assert made.message.body == client.get_schedule(either.name).message.body == SECRET
        assert [each.message.body for each in client.list_schedules() if each.name == either.name] == [SECRET]
        assert SECRET not in repr(made)
    with pytest.raises(MessageNotReadableError, match="the client has no keys"):
        _ = either.client.get_schedule(either.name).message
    either.client.delete_schedule(either.name)


def test_without_the_keys_a_body_cannot_be_read(either: World) -> None:
    with encrypting(either) as client:
        client.queue(either.name).send(Message(SECRET))
    with encrypting(either, NEWER) as other:
        for reader in (either.client, other):
            (peeked,) = reader.queue(either.name).peek()
            with pytest.raises(MessageNotReadableError, match=r"it is encrypted.*, (and|which) the client") as refusal:
                _ = peeked.body
            assert KEY not in str(refusal.value)
            assert is_encrypted(peeked.raw_body)


def test_a_body_that_cannot_be_decrypted_is_dead_lettered_and_explained(either: World) -> None:
    with encrypting(either) as client:
        client.queue(either.name).send_batch([Message(SECRET), Message(SECRET)])
    flip = "update pgqueue.message set binary_body = set_byte(binary_body, 60, get_byte(binary_body, 60) # 1)"
    either.run(f"{flip} where sequence_number = %s", either.found()[0].sequence_number)
    with encrypting(either) as client:
        (received,) = client.queue(either.name).receive(max_messages=2)
        assert received.body == SECRET
        received.abandon()
    with encrypting(either, NEWER) as other:
        assert other.queue(either.name).receive() == []
    changed, unknown = either.dead()
    assert changed.dead_letter_reason == unknown.dead_letter_reason == "InvalidBody"
    assert (
        changed.dead_letter_error_description
        == "the body cannot be read: it is encrypted, and was changed or cut since"
    )
    assert "which the client does not have" in (unknown.dead_letter_error_description or "")


def test_a_worker_dead_letters_what_it_cannot_decrypt(either: World) -> None:
    with encrypting(either) as client:
        client.queue(either.name).send(Message(SECRET))
    handled: list[Any] = []
    with QueueClient(either.database.dsn, interceptors=[EncryptedBodies([NEWER])]) as client:
        worker = Worker(client.queue(either.name), lambda message: handled.append(message.body), concurrency=1)
        running = threading.Thread(target=worker.run)
        running.start()
        try:
            eventually(either.dead)
            client.queue(either.name).send(Message(SECRET))
            eventually(lambda: handled)
        finally:
            worker.stop()
            running.join()
    assert handled == [SECRET]
    assert either.dead()[0].dead_letter_reason == "InvalidBody"


def test_the_first_key_encrypts_and_all_decrypt(either: World) -> None:
    for keys in ([KEY], [NEWER, KEY], [NEWER]):
        with encrypting(either, *keys) as client:
            client.queue(either.name).send(Message(SECRET))
    with encrypting(either, NEWER, KEY) as client:
        assert [each.body for each in client.queue(either.name).peek(max_messages=9)] == [SECRET] * 3
    with encrypting(either, NEWER) as client:
        _, *newer = client.queue(either.name).peek(max_messages=9)
        assert [each.body for each in newer] == [SECRET] * 2


def test_plain_bodies_are_read_unless_encryption_is_required(either: World) -> None:
    either.send("plain")
    with encrypting(either) as client:
        assert [each.body for each in client.queue(either.name).peek()] == ["plain"]
    with encrypting(either, require=True) as client:
        assert client.queue(either.name).receive() == []
    assert "it is not encrypted" in (either.dead()[0].dead_letter_error_description or "")


def test_typed_bodies_are_checked_before_and_after(either: World, caplog: pytest.LogCaptureFixture) -> None:
    with encrypting(either) as client:
        patients = client.queue(either.name, body_type=Patient)
        patients.send(Message(Patient(SECRET, 7)))
        (received,) = patients.receive()
        assert received.body == Patient(SECRET, 7)
        received.complete()
        wrongs: list[Any] = [Patient(SECRET, SECRET), {SECRET: float("nan")}]  # type: ignore[arg-type]
        for wrong in wrongs:
            with pytest.raises(MessageNotSerializableError) as refusal:
                patients.send(Message(wrong))
            assert SECRET not in "".join(traceback.format_exception(refusal.value))
            assert refusal.value.__cause__ is None
        client.queue(either.name).send(Message({"name": SECRET, "age": SECRET}))
        (peeked,) = patients.peek()
        with pytest.raises(MessageNotReadableError) as unreadable:
            _ = peeked.body
        assert SECRET not in str(unreadable.value)
        with caplog.at_level(logging.DEBUG):
            assert patients.receive() == []
    assert SECRET not in caplog.text
    assert either.dead()[0].dead_letter_reason == "InvalidBody"
    assert places_of(either, SECRET) == []


def test_no_text_shows_a_body(either: World) -> None:
    with encrypting(either) as client:
        queue = client.queue(either.name)
        queue.send(Message(SECRET))
        (received,) = queue.receive()
        assert received.body == SECRET
        for shown in (received, queue.peek()[0], queue.peek()):
            assert SECRET not in repr(shown)
            assert SECRET not in str(shown)
        assert "body=<encrypted>" in repr(queue.peek()[0])


def test_other_interceptors_see_what_was_sent(either: World) -> None:
    seen: list[Any] = []

    def send(message: Message, call: Any) -> None:
        seen.append(message.body)
        call(message)

    bodies, watching = EncryptedBodies([KEY]), interceptor(either.mode.face, send=send)
    for interceptors in ([bodies, watching], [watching, bodies]):
        with either.sources.made_of(either.database.dsn, interceptors=interceptors) as client:
            client.queue(either.name).send(Message(SECRET))
    assert seen == [SECRET] * 2
    assert places_of(either, SECRET) == []


def test_a_filter_on_an_encrypted_body_is_refused(either: World) -> None:
    topic = f"topic-{either.name}"
    either.client.create_topic(topic)
    with encrypting(either) as client:
        for path in (
            "$.body.amount > 1",
            '$."body" == 1',
            "exists($.* ? (@ == 1))",
            "exists($.** ? (@ == 1))",
            '$."\\u0062ody" == 1',
        ):
            with pytest.raises(InvalidArgumentError, match="reads the body, which is encrypted"):
                client.create_subscription(topic, "all", filter=JsonPathFilter(path))
        client.create_subscription(topic, "all", filter=JsonPathFilter("$.application_properties.body_size > 1"))
        with pytest.raises(InvalidArgumentError, match="reads the body, which is encrypted"):
            client.update_subscription(topic, "all", filter=JsonPathFilter("$.body.amount > 1"))


def test_no_key_is_shown() -> None:
    bodies = EncryptedBodies([NEWER, KEY])
    assert not any(key[:8] in text for key in (KEY, NEWER) for text in (repr(bodies), str(vars(bodies))))
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(bodies)
    with pytest.raises(ValueError, match="it is encrypted") as failure:
        EncryptedBodies([NEWER]).decrypt(bodies.encrypt(SECRET)[:60])
    shown = traceback.TracebackException.from_exception(failure.value, capture_locals=True)
    assert not any(KEY in line or NEWER in line for line in shown.format())


@pytest.mark.parametrize(
    "wrong",
    [[], [KEY, KEY], [KEY, "short"], [KEY, KEY[:-4]], [KEY + "AAAA"], [KEY.encode()], [None], None, KEY, [f" {KEY}"]],
    ids=str,
)
def test_wrong_keys_are_refused_and_not_shown(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError) as refusal:
        EncryptedBodies(wrong)
    own = traceback.TracebackException.from_exception(
        refusal.value.with_traceback(refusal.tb.tb_next), capture_locals=True
    )
    assert not any(KEY[:20] in line for line in own.format())


def test_bodies_are_encrypted_once() -> None:
    with pytest.raises(InvalidArgumentError, match="give one EncryptedBodies"):
        QueueClient("host=nowhere", interceptors=[EncryptedBodies([KEY]), EncryptedBodies([NEWER])])


def test_a_message_is_pickled_without_the_keys(either: World) -> None:
    with QueueClient(either.database.dsn, interceptors=[EncryptedBodies([KEY])]) as client:
        client.queue(either.name).send(Message(SECRET))
        (peeked,) = client.queue(either.name).peek()
        (copied,) = pickle.loads(pickle.dumps([peeked]))
        assert copy.copy(peeked).body == SECRET
    with pytest.raises(MessageNotReadableError, match="no keys"):
        _ = copied.body


def test_interceptors_and_tags_work_together(either: World) -> None:
    made: Callable[..., Any] = either.sources.made_of
    interceptors = [interceptor(either.mode.face, **tagged("a")), EncryptedBodies([KEY])]
    with made(either.database.dsn, interceptors=interceptors) as client:
        client.queue(either.name).send_batch([Message(SECRET)])
        assert [(each.body, each.subject) for each in client.queue(either.name).peek()] == [(SECRET, "a")]
