"""Django's Tasks framework over queues, on Django 6 by itself, on older ones by the package django-tasks."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.management import CommandError, call_command
from django.db import connections, transaction
from django.test import override_settings
from django.utils import timezone

import pgqueue.django
from pgqueue import Message, Queue, QueueClient, ReceiveState
from pgqueue.django import framework, tasks
from pgqueue.errors import InvalidArgumentError, LockLostError, QueueNotFoundError
from pgqueue.testing import Database
from tests.django import errands
from tests.django.shop import Shipped
from tests.django.test_operating import command
from tests.patience import PATIENCE, eventually

SUCCESSFUL, FAILED = framework.TaskResultStatus.SUCCESSFUL, framework.TaskResultStatus.FAILED
READY, RUNNING = framework.TaskResultStatus.READY, framework.TaskResultStatus.RUNNING


@pytest.fixture
def queue(client: QueueClient) -> Queue:
    client.create_queue("mail")
    client.create_queue("default")
    return client.queue("default")


@pytest.fixture
def heard() -> Iterator[list[tuple[str, Any]]]:
    """The signals that were sent, with the status of the task."""
    found: list[tuple[str, Any]] = []
    known = {
        "enqueued": framework.task_enqueued,
        "started": framework.task_started,
        "finished": framework.task_finished,
    }
    listeners = {name: listener(found, name) for name in known}
    for name, each in known.items():
        each.connect(listeners[name])
    yield found
    for name, each in known.items():
        each.disconnect(listeners[name])


def listener(found: list[tuple[str, Any]], name: str) -> Any:
    def hear(task_result: Any, **_: object) -> None:
        found.append((name, task_result.status))

    return hear


def shipped() -> list[int]:
    return list(Shipped.objects.order_by("order").values_list("order", flat=True))


def run_next(queue: Queue) -> Any:
    """Run the next task as a worker does; return its message."""
    (message,) = queue.receive()
    tasks.run_task(message)
    return message


@pytest.mark.core
def test_a_task_is_enqueued_if_the_block_commits(queue: Queue) -> None:
    with transaction.atomic():
        Shipped.objects.create(order=1)
        result = errands.ship.enqueue(order=7)
        assert queue.peek() == [], "it is not committed yet"
    assert result.status == framework.TaskResultStatus.READY
    (message,) = queue.peek()
    assert (message.message_id, message.subject) == (result.id, "tests.django.errands.ship")
    assert message.body == {"args": [], "kwargs": {"order": 7}}


def test_a_rollback_takes_a_task_back(queue: Queue) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        errands.ship.enqueue(7)
        raise ZeroDivisionError
    assert queue.peek() == []


def test_a_task_is_enqueued_at_once_outside_of_a_block(queue: Queue) -> None:
    errands.ship.enqueue(7)
    run_next(queue)
    assert shipped() == [7]
    assert queue.peek() == []


def test_a_task_is_enqueued_from_a_coroutine(queue: Queue) -> None:
    async_to_sync(errands.ship.aenqueue)(7)
    run_next(queue)
    assert shipped() == [7]


@pytest.mark.core
def test_a_task_and_its_completion_are_committed_together(queue: Queue) -> None:
    errands.ship_and_fail.enqueue(7)
    (message,) = queue.receive()
    with pytest.raises(ValueError, match="lorry"):
        tasks.run_task(message)
    assert shipped() == []
    assert message.state is ReceiveState.RECEIVED, "the worker abandons it"


def test_a_coroutine_works_in_the_transaction(queue: Queue) -> None:
    errands.ship_asynchronously.enqueue(1)
    run_next(queue)
    errands.ship_asynchronously_and_fail.enqueue(2)
    with pytest.raises(ValueError, match="lorry"):
        run_next(queue)
    assert shipped() == [1]


def test_a_task_never_begins_on_a_lost_lock(queue: Queue) -> None:
    errands.ship.enqueue(7)
    (message,) = queue.receive()
    queue.unlock(message.sequence_number)
    with pytest.raises(LockLostError):
        tasks.run_task(message)
    assert shipped() == []


def test_run_after_and_priority_are_those_of_the_message(client: QueueClient, queue: Queue) -> None:
    later = timezone.now() + timedelta(hours=1)
    errands.ship.using(run_after=later).enqueue(1)
    assert queue.receive() == []
    (message,) = queue.peek()
    assert message.scheduled_enqueue_time == later
    for priority in (-100, 100, 3):
        errands.ship.using(priority=priority).enqueue(priority)
    assert [each.body["args"] for each in queue.receive(max_messages=3)] == [[100], [3], [-100]]


@override_settings(USE_TZ=False)
def test_a_naive_time_is_that_of_the_project(queue: Queue) -> None:
    errands.ship.using(run_after=timezone.now() + timedelta(hours=1)).enqueue(1)
    assert queue.receive() == []
    assert len(queue.peek()) == 1


def test_the_context_counts_the_attempts(client: QueueClient, queue: Queue) -> None:
    mail = client.queue("mail")
    errands.ATTEMPTS.clear()
    errands.note_attempt.enqueue()
    (message,) = mail.receive()
    assert message.priority == -7
    with pytest.raises(ValueError, match="once more"):
        tasks.run_task(message)
    message.abandon()
    run_next(mail)
    assert errands.ATTEMPTS == [1, 2]


def test_signals_are_sent_at_each_attempt(queue: Queue, heard: list[tuple[str, Any]]) -> None:
    errands.ship_and_fail.enqueue(1)
    with pytest.raises(ValueError, match="lorry"):
        run_next(queue)
    errands.ship.enqueue(2)
    run_next(queue)
    ready, running = framework.TaskResultStatus.READY, framework.TaskResultStatus.RUNNING
    assert heard == [
        ("enqueued", ready),
        ("started", running),
        ("finished", FAILED),
        ("enqueued", ready),
        ("started", running),
        ("finished", SUCCESSFUL),
    ]


def test_a_task_is_finished_after_the_commit(queue: Queue, heard: list[tuple[str, Any]]) -> None:
    seen: list[Any] = []

    def look(task_result: Any, **_: object) -> None:
        seen.append((connections["default"].in_atomic_block, task_result.return_value, queue.peek()))
        raise ZeroDivisionError("a listener that fails changes nothing")

    framework.task_finished.connect(look)
    try:
        errands.ship.enqueue(7)
        assert run_next(queue).state is ReceiveState.COMPLETED
    finally:
        framework.task_finished.disconnect(look)
    assert seen == [(False, 7, [])]


def test_a_failure_after_the_commit_does_not_fail_the_task(queue: Queue, heard: list[tuple[str, Any]]) -> None:
    errands.fail_after_commit.enqueue(7)
    with pytest.raises(ValueError, match="nobody listens"):
        run_next(queue)
    assert (shipped(), heard[-1], queue.peek()) == ([7], ("finished", SUCCESSFUL), [])


def test_a_result_that_is_no_json_fails_the_task(queue: Queue) -> None:
    errands.answer_what_is_no_json.enqueue()
    with pytest.raises(TypeError):
        run_next(queue)
    assert shipped() == []


def test_results_are_not_kept_and_the_backend_declares_it(queue: Queue) -> None:
    backend = errands.ship.get_backend()
    flags = ("supports_defer", "supports_async_task", "supports_get_result", "supports_priority")
    assert [getattr(backend, flag) for flag in flags] == [True, True, False, True]
    with pytest.raises(NotImplementedError):
        errands.ship.enqueue(1).refresh()


@pytest.fixture
def kept(client: QueueClient) -> Queue:
    client.create_queue("kept", result_retention=timedelta(hours=1))
    return client.queue("kept")


@pytest.mark.core
def test_the_result_of_a_task_is_kept(kept: Queue) -> None:
    with transaction.atomic():
        result = errands.weigh.enqueue(7, grams=500)
        assert errands.weigh.get_result(result.id).status == READY, "it is read in the transaction"
    assert result.id == f"kept:{kept.peek()[0].sequence_number}"
    (message,) = kept.receive()
    result.refresh()
    assert (result.status, result.attempts) == (RUNNING, 1)
    tasks.run_task(message)
    async_to_sync(result.arefresh)()
    assert (result.status, result.return_value, result.attempts) == (SUCCESSFUL, {"grams": 500}, 1)
    assert (result.args, result.kwargs, result.errors) == ([7], {"grams": 500}, [])
    assert result.enqueued_at < result.started_at <= result.last_attempted_at <= result.finished_at
    found = async_to_sync(errands.weigh.aget_result)(result.id)
    assert (found.task, found.id, found.backend) == (result.task, result.id, "kept")


def test_a_task_that_fails_has_its_errors(kept: Queue) -> None:
    result = errands.weigh.enqueue(7, grams=-1)
    for status in (READY, FAILED):
        (message,) = kept.receive()
        with pytest.raises(ValueError, match="lighter") as failure:
            tasks.run_task(message)
        if status == READY:
            message.abandon(error=failure.value)
        else:
            message.dead_letter("Failed", error=failure.value)
        result.refresh()
        assert result.status == status
    assert [each.exception_class for each in result.errors] == [ValueError]
    assert "lighter than air" in result.errors[0].traceback
    assert (result.attempts, shipped()) == (2, [])
    kept.dead_letters.purge()
    with pytest.raises(framework.TaskResultDoesNotExist):
        result.refresh()


def test_a_task_with_a_result_never_begins_on_a_lost_lock(kept: Queue) -> None:
    errands.weigh.enqueue(7)
    (message,) = kept.receive()
    kept.unlock(message.sequence_number)
    with pytest.raises(LockLostError):
        tasks.run_task(message)
    assert shipped() == []


@pytest.mark.parametrize("result_id", ["kept:4711", "kept:x", "kept", ":", "", "nowhere:1", f"kept:{2**70}", "kept:-1"])
def test_a_result_that_does_not_exist(kept: Queue, result_id: str) -> None:
    with pytest.raises(framework.TaskResultDoesNotExist):
        errands.weigh.get_result(result_id)


def test_the_message_of_another_sender_is_no_result(kept: Queue) -> None:
    number = kept.send(Message({"order": 7}))
    for _ in range(2):
        with pytest.raises(framework.TaskResultDoesNotExist):
            errands.weigh.get_result(f"kept:{number}")
        for message in kept.receive():
            message.complete(result={"grams": 1})


def test_a_queue_that_keeps_no_results_is_refused(client: QueueClient) -> None:
    client.create_queue("kept")
    with pytest.raises(InvalidArgumentError, match="queue kept does not: set its result_retention"):
        errands.weigh.enqueue(7)


@pytest.mark.parametrize("name", ["tests.django.errands.no_task", "os.getcwd"])
def test_a_name_that_is_no_task_is_not_run(queue: Queue, name: str) -> None:
    queue.send(Message({"args": [], "kwargs": {}}, subject=name, application_properties={"backend": "default"}))
    with pytest.raises(InvalidArgumentError, match=f"{name} is no task"):
        run_next(queue)


@pytest.mark.parametrize(
    "message",
    [
        Message({"order": 7}),
        Message({}, subject="tests.django.errands.ship"),
        Message({}, subject="tests.django.errands.ship", application_properties={"backend": "nothing"}),
        Message({}, application_properties={"backend": "default"}),
    ],
)
def test_a_message_from_another_sender_is_refused(queue: Queue, message: Message) -> None:
    queue.send(message)
    with pytest.raises(InvalidArgumentError, match="is no task of a PGQueueBackend"):
        run_next(queue)


def test_a_task_that_is_gone_is_named(queue: Queue) -> None:
    queue.send(Message({}, subject="tests.django.errands.gone", application_properties={"backend": "default"}))
    with pytest.raises(InvalidArgumentError, match=r"no task tests\.django\.errands\.gone here"):
        run_next(queue)


def test_an_unknown_queue_is_named(client: QueueClient) -> None:
    with pytest.raises(QueueNotFoundError, match="default"):
        errands.ship.enqueue(1)
    with pytest.raises(Exception, match="Queue 'letters' is not valid"):
        errands.ship.using(queue_name="letters")


def test_a_backend_uses_its_database(client: QueueClient, queue: Queue) -> None:
    with pgqueue.django.client("other") as other:
        other.migrate()
        other.create_queue("default")
        with transaction.atomic():
            errands.ship.using(backend="other").enqueue(1)
            assert len(other.queue("default").peek()) == 1, "the block is of another database"
        assert queue.peek() == []


def checked(**params: Any) -> list[str]:
    backend = tasks.PGQueueBackend("default", {"QUEUES": ["default"], **params})
    return [each.id for each in backend.check()]


def test_the_checks_of_django_know_the_settings(project: Database) -> None:
    call_command("check", verbosity=0)
    assert checked() == []
    assert checked(OPTIONS={"databse": "other"}) == ["pgqueue.E001"]
    assert checked(OPTIONS={"database": "nowhere"}) == ["pgqueue.E002"]
    assert checked(OPTIONS={"database": "small"}) == ["pgqueue.E003"]


def test_the_names_that_the_checks_refuse_are_those_that_the_database_refuses(client: QueueClient) -> None:
    for name in ("mail to all", "-", "a.", "a" * 261):
        assert checked(QUEUES=[name]) == ["pgqueue.E004"]
        with pytest.raises(InvalidArgumentError):
            client.create_queue(name)
    for name in ("a", "a.b/c_d-e", "a" * 260):
        assert checked(QUEUES=[name]) == []
        client.create_queue(name)


@pytest.mark.parametrize("options", [[], ["--processes", "2"]])
def test_a_worker_runs_tasks(queue: Queue, project: Database, options: list[str]) -> None:
    for order in range(5):
        errands.ship.enqueue(order)
    errands.ship_and_fail.enqueue(9)
    pgqueue.django.client().update_queue("default", max_delivery_count=1)
    worker = command(project, "default", *options, name="pgqueue_tasks")
    try:
        eventually(lambda: worker.poll() is not None or (len(shipped()) == 5 and queue.dead_letters.peek() != []))
    finally:
        worker.send_signal(signal.SIGTERM)
        _, err = worker.communicate(timeout=PATIENCE)
    assert (worker.returncode, shipped()) == (0, [0, 1, 2, 3, 4]), err
    (dead,) = queue.dead_letters.peek()
    assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"
    assert "lorry" in str(dead.last_error)


def test_a_worker_of_no_backend_is_refused(project: Database) -> None:
    with pytest.raises(CommandError, match="no backend 'nothing'"):
        call_command("pgqueue_tasks", "nothing")
