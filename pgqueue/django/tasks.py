"""A backend for Django's Tasks framework: ``django.tasks`` of Django 6, or the package ``django-tasks`` before that.

A task is a message: it is enqueued in the transaction of the caller, and runs in a transaction that completes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from functools import partial
from traceback import format_exception
from typing import Any

from django.core import checks
from django.db import DEFAULT_DB_ALIAS, close_old_connections, connections
from django.db.transaction import atomic
from django.utils import timezone
from django.utils.crypto import get_random_string
from django.utils.module_loading import import_string

from pgqueue import DeliveryError, Message, Outcome, PeekedMessage, QueueClient, ReceivedMessage, ReceiveState
from pgqueue.django import client, completing, completing_with, transaction
from pgqueue.django.connection import connection_source
from pgqueue.django.following import ClientOfSource
from pgqueue.django.framework import (
    BaseTaskBackend,
    Task,
    TaskContext,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    normalize_json,
    task_backends,
    task_enqueued,
    task_finished,
    task_started,
)
from pgqueue.errors import InvalidArgumentError, QueueNotFoundError
from pgqueue.model.names import dead_letters_of

__all__ = ["PGQueueBackend", "run_task"]

#: Of a result that is kept.
KEPT_TIMES = ("enqueued_at", "started_at", "last_attempted_at")

#: The names that a queue may have, as the database has it.
QUEUE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?")


class PGQueueBackend(BaseTaskBackend):
    """Keeps tasks in queues of pgqueue, for the setting ``TASKS``.

    ``QUEUES`` names queues that exist. ``OPTIONS`` may have ``database``, the name of a database in ``DATABASES``, and
    ``results``: whether results are kept, by queues with ``result_retention``. ``manage.py pgqueue_tasks`` runs the
    tasks.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = False
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.database: str = self.options.get("database", DEFAULT_DB_ALIAS)
        self.supports_get_result = self.options.get("results") is True

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Enqueues a task in the open transaction of its database; in one of its own where none is open.

        Raises:
            QueueNotFoundError: the queue does not exist.
            InvalidArgumentError: the option ``results`` is set, and the queue keeps none.
        """
        self.validate_task(task)
        result = self._result(
            task, TaskResultStatus.READY, id=get_random_string(32), enqueued_at=timezone.now(), args=args, kwargs=kwargs
        )
        if self.supports_get_result:
            self._require_retention(task.queue_name)
        message = Message(
            {"args": result.args, "kwargs": result.kwargs},
            message_id=None if self.supports_get_result else result.id,
            subject=task.module_path,
            application_properties={"backend": self.alias},
            priority=-task.priority,
            scheduled_enqueue_time=_aware(task.run_after),
        )
        with atomic(using=self.database, savepoint=False):
            queue = client(self.database).queue(task.queue_name)
            number = queue.send(message, transaction=transaction(self.database))
        if self.supports_get_result:
            _set(result, id=_id(queue.name, number))
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """Returns the result with this id, as it is now.

        It is read in the transaction that is open, and on its connection.

        Raises:
            TaskResultDoesNotExist: there is none with this id, its time is over, or its message was deleted.
        """
        if not self.supports_get_result:
            return super().get_result(result_id)
        name, _, number = result_id.rpartition(":")
        queue = self._here().queue(name)
        with suppress(QueueNotFoundError, InvalidArgumentError, ValueError):
            for place in (queue, queue, queue.dead_letters):  # the second time: it may be settled between two reads
                outcome = queue.result(int(number))
                if outcome is not None and outcome.state == "COMPLETED":
                    return self._succeeded(result_id, outcome)
                for message in place.peek(from_sequence_number=int(number)):
                    if message.sequence_number == int(number) and _backend_of(message) == self.alias:
                        return self._unfinished(message)
        raise TaskResultDoesNotExist(result_id)

    def _succeeded(self, result_id: str, outcome: Outcome) -> Any:
        """The result of a task that has ended, as it was kept. Raises ValueError if it is another's."""
        if not isinstance(outcome.result, dict) or "task_result" not in outcome.result:
            raise ValueError(f"{result_id} is no task")
        fields = dict(outcome.result["task_result"])
        queue, priority = result_id.rpartition(":")[0], fields.pop("priority")
        task = _task(fields.pop("task")).using(priority=priority, queue_name=queue, backend=self.alias)
        fields |= {name: datetime.fromisoformat(fields[name]) for name in KEPT_TIMES}
        fields |= {"id": result_id, "finished_at": outcome.settled_at}
        fields["errors"] = [TaskError(**each) for each in fields["errors"]]
        result = self._result(task, TaskResultStatus.SUCCESSFUL, **fields)
        _set(result, _return_value=outcome.result["return_value"])
        return result

    def _unfinished(self, message: PeekedMessage[Any]) -> Any:
        """The result of a task that waits or runs, or that has failed for good."""
        if message.dead_lettered_at is not None:
            return self._of_message(message, TaskResultStatus.FAILED, finished_at=message.dead_lettered_at)
        return self._of_message(message, TaskResultStatus.RUNNING if message.locked_until else TaskResultStatus.READY)

    def _of_message(self, message: PeekedMessage[Any], status: Any, **fields: Any) -> Any:
        """The result of a task whose message is there."""
        name = dead_letters_of(message.queue)
        task = _task(message.subject or "").using(priority=-message.priority, queue_name=name, backend=self.alias)
        known = {
            "id": message.message_id or _id(name, message.sequence_number),
            "enqueued_at": message.enqueued_time,
            "args": message.body["args"],
            "kwargs": message.body["kwargs"],
            "errors": [_past(each) for each in message.delivery_log or (message.last_error,) if each is not None],
            "worker_ids": [message.locked_by or ""] * message.delivery_count,  # their number is that of the attempts
        }
        return self._result(task, status, **known | fields)

    def _result(self, task: Any, status: Any, **fields: Any) -> Any:
        unknown: dict[str, Any] = {"started_at": None, "last_attempted_at": None, "finished_at": None}
        unknown |= {"errors": [], "worker_ids": []}
        return TaskResult(task=task, status=status, backend=self.alias, **unknown | fields)

    def _here(self) -> QueueClient:
        """A client of Django's connection: it reads what the open transaction has enqueued."""
        return ClientOfSource(connection_source(self.database))

    def _require_retention(self, queue: str) -> None:
        if self._here().get_queue(queue).result_retention is None:
            raise InvalidArgumentError(
                f"TASKS[{self.alias!r}] is to keep results, and queue {queue} does not: set its result_retention"
            )

    def check(self, **_: Any) -> Iterator[checks.CheckMessage]:
        """Checks the options, that the database is PostgreSQL, and the names of queues.

        Whether the queues exist is seen when they are used: checks of Django do not ask the database.
        """
        if unknown := sorted(set(self.options) - {"database", "results"}):
            hint = "The options: database, results."
            yield self._error("E001", f"OPTIONS has {', '.join(unknown)}, which is no option.", hint)
        if self.database not in connections:
            yield self._error("E002", f"OPTIONS names the database {self.database!r}, which DATABASES does not have.")
        elif connections[self.database].vendor != "postgresql":
            yield self._error("E003", f"The database {self.database!r} is not PostgreSQL.")
        for name in sorted(self.queues):
            if len(name) > 260 or not QUEUE_NAME.fullmatch(name):
                hint = "Letters, digits, and . _ / - between them; at most 260 characters."
                yield self._error("E004", f"{name!r} cannot be the name of a queue.", hint)

    def _error(self, number: str, text: str, hint: str | None = None) -> checks.CheckMessage:
        return checks.Error(f"TASKS[{self.alias!r}]: {text}", hint, id=f"pgqueue.{number}")


def run_task(message: ReceivedMessage[Any]) -> None:
    """Runs the task that a message stands for, in an ``atomic()`` block that completes the message.

    An exception rolls the task back, and the worker delivers the message again as its queue and its ``RetryPolicy``
    demand. ``task_started`` and ``task_finished`` are sent at each attempt, outside of the block.
    """
    backend, result = _begun(message)
    completion = completing(message, using=backend.database)
    if backend.supports_get_result:
        completion = completing_with(message, partial(_kept, result), backend.database)
    if not connections[backend.database].in_atomic_block:  # in a TestCase one is open, and would be lost
        close_old_connections()
    task_started.send(type(backend), task_result=result)
    try:
        with completion:
            _set(result, _return_value=normalize_json(_call(result)))
    except BaseException as error:
        if message.state is not ReceiveState.COMPLETED:  # else it is what runs after the commit that failed
            result.errors.append(_error(error))
            _finish(backend, result, TaskResultStatus.FAILED)
            raise
        _finish(backend, result, TaskResultStatus.SUCCESSFUL)
        raise
    _finish(backend, result, TaskResultStatus.SUCCESSFUL)


def backend_named(alias: object) -> PGQueueBackend | None:
    """The backend of this name in ``TASKS``, if it is one of ours."""
    found = task_backends[alias] if alias in task_backends.settings else None
    return found if isinstance(found, PGQueueBackend) else None


def _begun(message: ReceivedMessage[Any]) -> tuple[PGQueueBackend, Any]:
    """The backend of a message, and its task as it begins to run.

    Raises:
        InvalidArgumentError: the message was not sent by the backend, or this project does not have its task.
    """
    alias = _backend_of(message)
    backend = backend_named(alias)
    if backend is None or message.subject is None:
        raise InvalidArgumentError(
            f"message {message.sequence_number} of {message.queue} is no task of a PGQueueBackend in TASKS"
        )
    now = timezone.now()
    running = TaskResultStatus.RUNNING
    return backend, backend._of_message(message, running, started_at=now, last_attempted_at=now)  # noqa: SLF001


def _kept(result: Any) -> Any:
    """The parts of a result that are kept."""
    fields = {name: getattr(result, name) for name in ("args", "kwargs", "worker_ids")}
    fields |= {name: getattr(result, name).isoformat() for name in KEPT_TIMES}
    fields |= {"task": result.task.module_path, "priority": result.task.priority}
    fields["errors"] = [asdict(each) for each in result.errors]
    return {"task_result": fields, "return_value": result._return_value}  # noqa: SLF001 - a backend may


def _backend_of(message: PeekedMessage[Any]) -> Any:
    return (message.application_properties or {}).get("backend")


def _id(queue: str, number: int) -> str:
    return f"{queue}:{number}"


def _past(error: DeliveryError) -> Any:
    """An error of an earlier attempt."""
    path = error.type if "." in error.type else f"builtins.{error.type}"
    return TaskError(exception_class_path=path, traceback=error.traceback or str(error))


def _task(path: str) -> Any:
    """The task with this path; nothing else is run, from any sender."""
    try:
        found = import_string(path)
    except ImportError as error:
        raise InvalidArgumentError(f"there is no task {path} here: {error}") from error
    if not isinstance(found, Task):
        raise InvalidArgumentError(f"{path} is no task: decorate it with @task")
    return found


def _call(result: Any) -> Any:
    context = [TaskContext(task_result=result)] if result.task.takes_context else []
    return result.task.call(*context, *result.args, **result.kwargs)


def _finish(backend: PGQueueBackend, result: Any, status: Any) -> None:
    """Report how an attempt ended. The message is settled, or will be: what a listener raises is logged."""
    _set(result, status=status, finished_at=timezone.now())
    task_finished.send_robust(type(backend), task_result=result)


def _set(result: Any, **fields: Any) -> None:
    """Results are frozen for all but their backends."""
    for name, value in fields.items():
        object.__setattr__(result, name, value)


def _error(error: BaseException) -> Any:
    kind = type(error)
    return TaskError(
        exception_class_path=f"{kind.__module__}.{kind.__qualname__}", traceback="".join(format_exception(error))
    )


def _aware(moment: datetime | None) -> datetime | None:
    """A time that pgqueue takes; without ``USE_TZ`` Django's are naive."""
    return timezone.make_aware(moment) if moment is not None and timezone.is_naive(moment) else moment
