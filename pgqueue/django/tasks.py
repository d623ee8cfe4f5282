"""A backend for Django's Tasks framework: ``django.tasks`` of Django 6, or the package ``django-tasks`` before that.

A task is a message: it is enqueued in the transaction of the caller, and runs in a transaction that completes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from traceback import format_exception
from typing import Any

from django.core import checks
from django.db import DEFAULT_DB_ALIAS, close_old_connections, connections
from django.db.transaction import atomic
from django.utils import timezone
from django.utils.crypto import get_random_string
from django.utils.module_loading import import_string

from pgqueue import Message, ReceivedMessage, ReceiveState
from pgqueue.django import client, completing, transaction
from pgqueue.django.framework import (
    BaseTaskBackend,
    Task,
    TaskContext,
    TaskError,
    TaskResult,
    TaskResultStatus,
    normalize_json,
    task_backends,
    task_enqueued,
    task_finished,
    task_started,
)
from pgqueue.errors import InvalidArgumentError

__all__ = ["PGQueueBackend", "run_task"]

#: The names that a queue may have, as the database has it.
QUEUE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?")


class PGQueueBackend(BaseTaskBackend):
    """Keeps tasks in queues of pgqueue, for the setting ``TASKS``.

    ``QUEUES`` names queues that exist. ``OPTIONS`` may have ``database``, the name of a database in ``DATABASES``.
    ``manage.py pgqueue_tasks`` runs the tasks. Results are not kept.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = False
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.database: str = self.options.get("database", DEFAULT_DB_ALIAS)

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Enqueues a task in the open transaction of its database; in one of its own where none is open.

        Raises:
            QueueNotFoundError: the queue does not exist.
        """
        self.validate_task(task)
        result = TaskResult(
            task=task,
            id=get_random_string(32),
            status=TaskResultStatus.READY,
            enqueued_at=timezone.now(),
            started_at=None,
            last_attempted_at=None,
            finished_at=None,
            args=args,
            kwargs=kwargs,
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        message = Message(
            {"args": result.args, "kwargs": result.kwargs},
            message_id=result.id,
            subject=task.module_path,
            application_properties={"backend": self.alias},
            priority=-task.priority,
            scheduled_enqueue_time=_aware(task.run_after),
        )
        with atomic(using=self.database, savepoint=False):
            client(self.database).queue(task.queue_name).send(message, transaction=transaction(self.database))
        task_enqueued.send(type(self), task_result=result)
        return result

    def check(self, **_: Any) -> Iterator[checks.CheckMessage]:
        """Checks the options, that the database is PostgreSQL, and the names of queues.

        Whether the queues exist is seen when they are used: checks of Django do not ask the database.
        """
        if unknown := sorted(set(self.options) - {"database"}):
            yield self._error("E001", f"OPTIONS has {', '.join(unknown)}, which is no option.", "The option: database.")
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
    if not connections[backend.database].in_atomic_block:  # in a TestCase one is open, and would be lost
        close_old_connections()
    task_started.send(type(backend), task_result=result)
    try:
        with completing(message, using=backend.database):
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
    alias = (message.application_properties or {}).get("backend")
    backend = backend_named(alias)
    if backend is None or message.subject is None:
        raise InvalidArgumentError(
            f"message {message.sequence_number} of {message.queue} is no task of a PGQueueBackend in TASKS"
        )
    now = timezone.now()
    result = TaskResult(
        task=_task(message.subject).using(priority=-message.priority, queue_name=message.queue, backend=alias),
        id=message.message_id,
        status=TaskResultStatus.RUNNING,
        enqueued_at=message.enqueued_time,
        started_at=now,
        last_attempted_at=now,
        finished_at=None,
        args=message.body["args"],
        kwargs=message.body["kwargs"],
        backend=alias,
        errors=[],
        worker_ids=[message.locked_by or ""] * message.delivery_count,  # their number is that of the attempts
    )
    return backend, result


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
