"""Sends that overlap: each has an outcome of its own, a bounded number is out, and none is forgotten."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import tenacity

from pgqueue import Message, QueueStatus
from pgqueue.errors import (
    ConnectionLostError,
    InvalidArgumentError,
    InvalidStateError,
    MessageNotSerializableError,
    MessageSizeExceededError,
    OperationTimeoutError,
    QueueDisabledError,
    QueueNotFoundError,
    SendError,
    TransactionConflictError,
)
from pgqueue.sending import outbox
from tests.contract.sources import CLIENTS
from tests.contract.test_sending import ALL_FIELDS, BODIES, EMPTY_FIELDS
from tests.contract.world import MINUTE, World

AT_ONCE = tenacity.Retrying(stop=tenacity.stop_after_attempt(3), wait=tenacity.wait_none())
A_MOMENT = timedelta(milliseconds=50)

TERMINATE_FLUSHES = """
select pg_terminate_backend(pid, 10000) from pg_stat_activity
 where datname = current_database() and pid <> pg_backend_pid() and query like '%begin; select pg_current_xact_id%'
   and state <> 'idle'"""


class BlockFailedError(Exception):
    """Raised in a block of a test."""


@contextmanager
def held_up(world: World) -> Iterator[None]:
    """No send goes through meanwhile."""
    with world.database.connect() as connection:
        connection.execute("lock table pgqueue.message in share row exclusive mode")
        yield


@contextmanager
def refusing(world: World, condition: str, *, sqlstate: str = "PQ999", at_commit: bool = False) -> Iterator[None]:
    """The database refuses those messages, when they are stored or at COMMIT."""
    body = f"if {condition} then raise exception 'refused' using errcode = '{sqlstate}'; end if; return new;"
    world.run(
        "create function refuse() returns trigger language plpgsql security definer set search_path = public"
        f" as $$ begin {body} end $$"
    )
    kind = "constraint trigger refuse after insert on" if at_commit else "trigger refuse before insert on"
    when = "deferrable initially deferred" if at_commit else ""
    world.run(f"create {kind} pgqueue.message {when} for each row execute function refuse()")
    try:
        yield
    finally:
        world.run("drop function refuse cascade")


def sent(world: World) -> list[Any]:
    return sorted(world.bodies())


def send_and_fail(world: World, *messages: Message) -> None:
    with world.queue.sender() as sender:
        for message in messages:
            sender.send(message)
        raise BlockFailedError


def test_every_message_is_stored_once_and_has_its_number(own: World) -> None:
    with own.queue.sender() as sender:
        pending = [sender.send(Message(body)) for body in range(100)]
        numbers = [each.result() for each in pending]
    assert numbers == sorted(set(numbers))
    assert [(message.body, message.sequence_number) for message in own.found()] == list(enumerate(numbers))


def test_every_sort_of_message_comes_out_as_it_went_in(either: World) -> None:
    """One by itself, and all in one flush."""
    messages = [Message(body) for body in BODIES.values()] + [Message(1, **ALL_FIELDS | {"priority": 0})]
    messages += [Message("%s %(a)s %%", subject='it\'s {\\"NULL", %s}'), Message(b"%", **EMPTY_FIELDS)]
    with either.queue.sender(max_in_flight=100) as sender, held_up(either):
        for message in messages:
            sender.send(message)
    found = either.found()
    transactions = """select count(distinct message.xmin::text) from pgqueue.message
                        join pgqueue.queue on queue.id = queue_id where name = %s"""
    assert either.look(transactions, either.name) <= [(2,)]
    assert [message.body for message in found] == [message.body for message in messages]
    for field in ALL_FIELDS:
        assert [getattr(message, field) for message in found] == [getattr(message, field) for message in messages]


def test_outcomes_are_read_in_any_order_and_again(either: World) -> None:
    with either.queue.sender() as sender:
        pending = [sender.send(Message(body)) for body in range(30)]
        backwards = [each.result() for each in reversed(pending)]
        assert [each.result() for each in pending] == backwards[::-1]
        assert all(each.done() for each in pending)
        assert pending[7].message == Message(7)


def test_the_end_of_the_block_waits_for_all_that_is_out(either: World) -> None:
    with either.queue.sender() as sender:
        for body in range(25):
            sender.send(Message(body))
    assert sent(either) == list(range(25))


def test_the_eleventh_waits_while_ten_are_out(either: World) -> None:
    with ThreadPoolExecutor() as threads, either.queue.sender(max_in_flight=10) as sender:
        with held_up(either):
            pending = [sender.send(Message(body)) for body in range(10)]
            eleventh = threads.submit(sender.send, Message(10))
            time.sleep(0.1)
            assert not eleventh.done()
            assert not any(each.done() for each in pending)
        eleventh.result().result()
    assert sent(either) == list(range(11))


def test_a_send_waiting_for_room_is_refused_when_the_sender_is_closed_meanwhile(either: World) -> None:
    sender = either.queue.sender(max_in_flight=1)
    with ThreadPoolExecutor() as threads:
        with held_up(either):
            out = sender.send(Message("out"))
            waiting = [threads.submit(sender.send, Message(body)) for body in range(3)]
            time.sleep(0.1)
            closing = threads.submit(sender.close)
            time.sleep(0.1)
        for each in waiting:
            with pytest.raises(InvalidStateError, match="closed"):
                each.result(timeout=300)
        closing.result(timeout=300)
    assert out.done()
    assert either.bodies() == ["out"]


def test_a_send_is_out_until_its_outcome_is_there(either: World) -> None:
    with either.queue.sender() as sender:
        with held_up(either):
            pending = sender.send(Message("slow"))
            with pytest.raises(OperationTimeoutError, match="still out") as late:
                pending.result(timeout=A_MOMENT)
            assert late.value.is_transient
        assert pending.result(timeout=MINUTE) == either.receive().sequence_number


@pytest.mark.parametrize("place", [0, 7, 49])
def test_a_message_that_is_refused_fails_none_of_its_neighbours(own: World, place: int) -> None:
    own.client.update_queue(own.name, max_message_size=100)
    with own.queue.sender(max_in_flight=50) as sender:
        pending = [sender.send(Message("x" * (200 if each == place else each))) for each in range(50)]
        with pytest.raises(MessageSizeExceededError, match=r"at most 100 bytes.*202|202.*at most 100") as refusal:
            pending[place].result()
        assert refusal.value.sqlstate == "PQ005"
        assert refusal.value.tracking_id in str(refusal.value)
        assert not refusal.value.is_transient
        numbers = [each.result() for each in pending if each is not pending[place]]
    assert {message.sequence_number for message in own.found()} == set(numbers)
    assert len(numbers) == 49


def test_every_second_one_refused_and_every_other_one_stored(either: World) -> None:
    either.client.update_queue(either.name, max_message_size=100)
    with either.queue.sender(max_in_flight=40) as sender:
        pending = [sender.send(Message(body if body % 2 else "x" * 200)) for body in range(40)]
        for each in pending[::2]:
            with pytest.raises(MessageSizeExceededError):
                each.result()
    assert sent(either) == list(range(1, 40, 2))


@pytest.mark.parametrize("at_commit", [False, True], ids=["stored", "committed"])
def test_a_message_that_the_database_refuses_fails_alone_even_at_the_commit(either: World, *, at_commit: bool) -> None:
    with (
        refusing(either, "new.body in ('3', '17', '18')", at_commit=at_commit),
        either.queue.sender(max_in_flight=5) as sender,
    ):
        pending = [sender.send(Message(body)) for body in range(20)]
        for place in (3, 17, 18):
            with pytest.raises(Exception, match="refused"):
                pending[place].result()
    assert sent(either) == [body for body in range(20) if body not in (3, 17, 18)]


def test_a_message_that_cannot_be_stored_is_refused_by_the_send_itself(either: World) -> None:
    with either.queue.sender(max_in_flight=1) as sender:
        wrong: list[Any] = [Message(float("nan")), Message(object()), Message(1, subject="\0"), "no message"]
        for bad in wrong:
            with pytest.raises((InvalidArgumentError, MessageNotSerializableError)):
                sender.send(bad)
        sender.send(Message("good"))
    assert either.bodies() == ["good"]


def test_a_message_is_sent_as_it_was_when_it_was_given(either: World) -> None:
    with either.queue.sender() as sender, held_up(either):
        body = {"state": "as given"}
        sender.send(Message(body))
        body["state"] = "changed since"
    assert either.bodies() == [{"state": "as given"}]


def test_a_refusal_that_concerns_the_queue_is_the_outcome_of_everybody(either: World) -> None:
    either.client.update_queue(either.name, status=QueueStatus.SEND_DISABLED)
    with either.queue.sender(max_in_flight=50) as sender:
        pending = [sender.send(Message(body)) for body in range(50)]
        for each in pending:
            with pytest.raises(QueueDisabledError, match=either.name):
                each.result()
    assert either.found() == []


def test_an_unknown_queue_is_the_outcome_of_each_send(either: World) -> None:
    sender = either.client.queue("no-such-queue").sender()
    sender.send(Message(1))
    sender.send(Message(2))
    with pytest.raises(SendError) as failed:
        sender.close()
    assert [type(error) for error in failed.value.exceptions] == [QueueNotFoundError] * 2


def test_closing_raises_failures_that_were_not_read_and_nothing_else(either: World) -> None:
    either.client.update_queue(either.name, max_message_size=10)
    sender = either.queue.sender()
    pending = [sender.send(Message("x" * length)) for length in (1, 20, 2, 30, 40)]
    with pytest.raises(MessageSizeExceededError, match="22 bytes"):
        pending[1].result()
    with pytest.raises(SendError, match="2 failed") as failed:
        sender.close()
    assert isinstance(failed.value, ExceptionGroup)
    assert {type(error) for error in failed.value.exceptions} == {MessageSizeExceededError}
    assert "32 bytes" in str(failed.value.exceptions[0])
    assert "42 bytes" in str(failed.value.exceptions[1])
    assert (failed.value.sqlstate, failed.value.is_transient) == ("PQ005", False)
    assert failed.value.tracking_id in str(failed.value)
    assert sent(either) == ["x", "xx"]
    sender.close()


def test_closing_raises_nothing_when_all_was_read(either: World) -> None:
    either.client.update_queue(either.name, max_message_size=10)
    sender = either.queue.sender()
    pending = sender.send(Message("x" * 20))
    for _ in range(2):
        with pytest.raises(MessageSizeExceededError):
            pending.result()
    sender.close()
    sender.close()


def test_an_exception_in_the_block_is_raised_with_a_note_of_what_has_failed_besides(either: World) -> None:
    either.client.update_queue(either.name, max_message_size=10)
    with pytest.raises(BlockFailedError) as failed:
        send_and_fail(either, Message("good"), Message("x" * 20))
    assert "1 failed" in failed.value.__notes__[0]
    assert "22 bytes" in failed.value.__notes__[0]
    assert either.bodies() == ["good"]


def test_an_exception_in_the_block_is_raised_as_it_is_when_nothing_else_has_failed(either: World) -> None:
    with pytest.raises(BlockFailedError) as failed:
        send_and_fail(either, Message("good"))
    assert not hasattr(failed.value, "__notes__")
    assert either.bodies() == ["good"]


def test_a_closed_sender_raises_an_error_with_the_remedy(either: World) -> None:
    with either.queue.sender() as sender:
        pass
    with pytest.raises(InvalidStateError, match=r"closed: make another with queue\.sender\(\)"):
        sender.send(Message("late"))
    assert either.found() == []


def test_unread_failures_are_raised_before_they_fill_the_memory(either: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "UNREAD_AT_MOST", 3)
    with (
        either.client.queue("no-such-queue").sender(max_in_flight=1) as sender,
        pytest.raises(SendError) as failed,
    ):
        list(map(sender.send, map(Message, range(100))))
    assert len(failed.value.exceptions) == 3


def test_a_send_that_fails_for_a_transient_reason_is_retried(either: World) -> None:
    conflict = "nextval('tries') < 2 and raised('40001')"
    either.run("create sequence tries minvalue 0")
    either.run(
        "create function raised(state text) returns boolean language plpgsql as"
        " $$ begin raise exception 'again' using errcode = state; end $$"
    )
    try:
        with refusing(either, conflict), either.queue.sender(max_in_flight=5, retry=AT_ONCE) as sender:
            pending = [sender.send(Message(body)) for body in range(20)]
            assert len({each.result() for each in pending}) == 20
    finally:
        either.run("drop sequence tries")
        either.run("drop function raised")
    assert sent(either) == list(range(20))


def test_the_policy_limits_the_retries(either: World) -> None:
    with refusing(either, "new.body = '1'", sqlstate="40001"), either.queue.sender(retry=AT_ONCE) as sender:
        sender.send(Message(0)).result()
        bad = sender.send(Message(1))
        with pytest.raises(TransactionConflictError) as refusal:
            bad.result()
        assert refusal.value.is_transient
    assert sent(either) == [0]


@pytest.mark.parametrize("wait", [0.0, 0.02, 0.05])
def test_a_backend_is_terminated_in_mid_flush_and_every_message_is_stored_once(own: World, wait: float) -> None:
    def terminate_now_and_then() -> None:
        for _ in range(5):
            time.sleep(wait)
            own.look(TERMINATE_FLUSHES)

    with ThreadPoolExecutor() as threads, own.queue.sender(max_in_flight=10) as sender:
        terminator: Future[None] = threads.submit(terminate_now_and_then)
        pending = [sender.send(Message(body)) for body in range(500)]
        while not terminator.done():
            pending.append(sender.send(Message(len(pending))))
        numbers = [each.result() for each in pending]
    found = own.look(
        "select body, sequence_number from pgqueue.message join pgqueue.queue on queue.id = queue_id where name = %s",
        own.name,
    )
    assert sorted(found) == list(enumerate(numbers))


@pytest.mark.parametrize("source", CLIENTS[1:])
def test_one_connection_is_enough_and_is_held_only_while_something_is_out(either: World, source: str) -> None:
    with (
        either.sources.narrow_client(source) as client,
        client.queue(either.name).sender(max_in_flight=3) as sender,
    ):
        for body in range(30):
            sender.send(Message(body))
        sender.send(Message(30)).result()
        client.queue(either.name).send(Message(31))
    assert sent(either) == list(range(32))


def test_an_unreachable_database_is_the_outcome_of_each_send(either: World) -> None:
    with either.sources.made_of("postgresql://nobody@127.0.0.1:9/nowhere") as client:
        sender = client.queue("orders").sender(retry=AT_ONCE)
        sender.send(Message(1))
        sender.send(Message(2))
        with pytest.raises(SendError) as failed:
            sender.close()
    assert {type(error) for error in failed.value.exceptions} == {ConnectionLostError}
    assert failed.value.is_transient


def test_several_at_once_fill_one_sender(either: World) -> None:
    def fill(start: int) -> list[int]:
        return [sender.send(Message(body)).result() for body in range(start, start + 50)]

    with ThreadPoolExecutor(8) as threads, either.queue.sender(max_in_flight=4) as sender:
        numbers = list(threads.map(fill, range(0, 400, 50)))
    assert len({number for some in numbers for number in some}) == 400
    assert all(some == sorted(some) for some in numbers)
    assert sent(either) == list(range(400))


BAD_ARGUMENTS: dict[str, dict[str, Any]] = {
    "none in flight": {"max_in_flight": 0},
    "half in flight": {"max_in_flight": 0.5},
    "None in flight": {"max_in_flight": None},
    "a number of tries": {"retry": 5},
}


@pytest.mark.parametrize("arguments", BAD_ARGUMENTS.values(), ids=BAD_ARGUMENTS)
def test_a_bad_argument_is_named(either: World, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{next(iter(arguments))} must be"):
        either.queue.sender(**arguments)
    seconds: Any = 5
    with either.queue.sender() as sender, pytest.raises(InvalidArgumentError, match="timeout must be a timedelta"):
        sender.send(Message(1)).result(timeout=seconds)
