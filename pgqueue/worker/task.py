# Written by `make generate` from pgqueue/aio/task.py: change it there.
"""The synchronous face of tasks: functions whose calls are messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from pgqueue.client import QueueClient
from pgqueue.errors import InvalidArgumentError
from pgqueue.flows import schedules
from pgqueue.flows.flow import Source, bodies_of, source_of
from pgqueue.model.arguments import duration, shown
from pgqueue.model.context import ReceiveState
from pgqueue.model.handler import TakesArguments
from pgqueue.model.message import Message, OnConflict, SequenceNumber
from pgqueue.model.outcome import Outcome, typed
from pgqueue.model.schedule import CatchUp
from pgqueue.model.task import FIELDS, Arguments, Periodic
from pgqueue.queue import Queue
from pgqueue.received import ReceivedMessage
from pgqueue.statements import queues, receiving
from pgqueue.statements.schedules import create_schedule as checked_schedule
from pgqueue.transports import drive
from pgqueue.worker.handlers import Handlers

if TYPE_CHECKING:
    from pgqueue.batch import Batch
    from pgqueue.transports.typed import Transaction

P = ParamSpec("P")
R = TypeVar("R")

#: The options of :meth:`Task.send`, beside the arguments of the function.
OPTIONS = ("transaction", "delay", "on_conflict", "batch", *FIELDS)

UniqueKey = str | Callable[..., str]


class Task(TakesArguments, Generic[P, R]):
    """A function whose calls can be sent as messages. Made by :meth:`Tasks.task`.

    Calling it calls the function. ``name`` is the subject of its messages, and ``queue`` the name of their queue.
    """

    def __init__(
        self, client: QueueClient, queue: str, name: str, function: Callable[P, R], unique_key: UniqueKey | None
    ) -> None:
        update_wrapper(self, function)
        self.name, self.queue = name, queue
        self._function = function
        self._arguments = Arguments(function, OPTIONS, asynchronous=False)
        if isinstance(unique_key, str):
            self._arguments.check_unique_key(unique_key, name)
        self._unique_key = unique_key
        self._keeps_results: WeakKeyDictionary[Source, bool] = WeakKeyDictionary()
        self._use(client)

    def _use(self, client: QueueClient) -> None:
        self._queue: Queue[Any] = client.queue(self.queue, body_type=self._arguments.kind)
        self._arguments.is_secret = bodies_of(source_of(self._queue)) is not None

    def __repr__(self) -> str:
        return f"Task({self.name!r}, queue={self.queue!r})"

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function."""
        return self._function(*args, **kwargs)

    def send(
        self,
        /,
        *args: Any,
        transaction: Transaction | None = None,
        delay: timedelta | None = None,
        on_conflict: OnConflict = "ignore",
        batch: Batch | None = None,
        **given: Any,
    ) -> SequenceNumber:
        """Sends a call with these arguments, which a worker makes later. Returns the sequence number of its message.

        The message is stored in your ``transaction`` if you give one. It waits for ``delay``, by the clock of the
        database. ``on_conflict`` and ``batch`` are those of :meth:`Queue.send`. The fields of
        :class:`~pgqueue.Message`, such as ``priority`` and ``session_id``, are given by name beside the arguments.

        Raises:
            InvalidArgumentError: the function takes other arguments, or a field is invalid.
            BatchClosedError: the batch was closed.
            MessageNotSerializableError: an argument is not of its type, or cannot be stored.
        """
        if delay is not None:
            if "scheduled_enqueue_time" in given:
                raise InvalidArgumentError("give either delay or scheduled_enqueue_time")
            duration("delay", delay)
            now = drive(source_of(self._queue).execute(receiving.clock()))
            given["scheduled_enqueue_time"] = now + delay
        message = self._message(*args, **given)
        return self._queue.send(message, on_conflict=on_conflict, batch=batch, transaction=transaction)

    def message(self, /, *args: Any, **given: Any) -> Message[Any]:
        """Returns the message of a call, for example for the end of a batch; takes the fields that :meth:`send` takes.

        Raises:
            InvalidArgumentError: the function takes other arguments, or a field is invalid.
            MessageNotSerializableError: an argument is not of its type.
        """
        message = self._message(*args, **given)
        return replace(message, body=self._arguments.as_json(message.body))

    def _message(self, /, *args: Any, **given: Any) -> Message[Any]:
        fields = {name: given.pop(name) for name in FIELDS if name in given}
        body = self._arguments.body(*args, **given)
        key = None if self._unique_key is None else self._key(self._arguments.values(body))
        return Message(body, subject=self.name, **{"unique_key": key, **fields})

    def result(self, sequence_number: int) -> Outcome | None:
        """Returns the outcome of a call; None if it is not settled yet. See :meth:`Queue.result`.

        Its ``result`` is the function's return value, as the type that the function is annotated with.
        """
        outcome = self._queue.result(sequence_number)
        return outcome and typed(outcome, self._arguments.returns)

    def wait_for(self, sequence_number: int, *, timeout: timedelta | None = None) -> Outcome:
        """Waits until a call is settled, for ``timeout`` at most, and returns its outcome. See :meth:`Queue.wait_for`.

        Raises:
            OperationTimeoutError: it was not settled in time.
            MessageNotFoundError: the queue has neither the call nor its outcome.
        """
        return typed(self._queue.wait_for(sequence_number, timeout=timeout), self._arguments.returns)

    def handler(self) -> Callable[..., Any]:
        """Returns the task as a handler, which completes its message with the function's return value."""

        def handle(message: ReceivedMessage[Any], transaction: Any = None) -> None:
            result = self._made(message, transaction)
            is_settled = message.state is not ReceiveState.RECEIVED  # by the function
            source = source_of(message)
            if result is not None and not is_settled and self._are_results_kept(source):
                try:
                    message.complete(result=self._arguments.result(result), transaction=transaction)
                except InvalidArgumentError:
                    self._keeps_results.pop(source, None)  # the queue may have changed: the next call asks again
                    raise

        return self._arguments.sign(handle, ReceivedMessage)

    # this face only: whether calls are awaited
    def _made(self, message: ReceivedMessage[Any], transaction: Any) -> Any:
        return self._arguments.call(message, transaction)

    # end

    def _are_results_kept(self, source: Source) -> bool:
        if source not in self._keeps_results:
            properties = drive(source.execute(queues.get_queue(self.queue)))
            self._keeps_results[source] = properties.result_retention is not None
        return self._keeps_results[source]

    def _key(self, arguments: dict[str, Any]) -> str:
        if callable(self._unique_key):
            return self._unique_key(**arguments)
        try:
            return str(self._unique_key).format(**arguments)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise InvalidArgumentError(f"the unique_key of {self.name} is no text of its arguments: {error}") from error


class Tasks(Handlers):
    """Functions whose calls are messages: you send them in your transaction, and workers make them.

    >>> tasks = Tasks(client)
    >>> @tasks.task(queue="mails")
    ... def remind(order: int, *, express: bool = False) -> None: ...
    >>> remind.send(7, express=True)

    ``Worker(tasks)`` makes the calls, as does ``pgqueue worker shop.tasks:tasks``.
    """

    def __init__(self, client: QueueClient) -> None:
        super().__init__()
        self._declared: list[Task[..., Any]] = []
        self._periodic: dict[str, Periodic] = {}
        self._use(client)

    def task(
        self,
        *,
        queue: str,
        name: str | None = None,
        unique_key: UniqueKey | None = None,
        max_attempts: int | None = None,
    ) -> Callable[[Callable[P, R]], Task[P, R]]:
        """A decorator: calls of the function can be sent to this queue.

        Its arguments are checked against their annotations, as :class:`~pgqueue.Message` bodies of a type are: when the
        call is sent, and when it is made. A parameter ``tx``, or one that is annotated with a connection or a session,
        gets the worker's transaction; ``message``, or one annotated with a ReceivedMessage, gets the message.

        ``name`` is the subject of the messages, by default the name of the function. ``unique_key`` is the unique key
        of a call: a text in which ``{order}`` stands for the argument ``order``, or a function of the arguments. After
        ``max_attempts`` deliveries a call that fails is dead-lettered, if the worker's policy does not do so before.

        Raises:
            InvalidArgumentError: the function takes arguments that a message cannot have; or the queue has a task of
                this name.
        """

        def register(function: Callable[P, R]) -> Task[P, R]:
            task = Task(self.client, queue, name or function.__name__, function, unique_key)
            self.handler(queue, subject=task.name, max_attempts=max_attempts)(task.handler())
            self._declared.append(task)
            return task

        return register

    def periodic(
        self,
        *,
        cron: str | None = None,
        every: timedelta | None = None,
        timezone: str = "UTC",
        catch_up: CatchUp | str = CatchUp.NONE,
        jitter: timedelta | None = None,
        name: str | None = None,
    ) -> Callable[[Task[P, R]], Task[P, R]]:
        """A decorator: the task is called without arguments, at the times of a schedule.

        The name of the schedule is ``name``, by default that of the task. :meth:`declare_schedules` creates it, or
        replaces one that differs. ``cron``, ``every``, ``timezone``, ``catch_up`` and ``jitter`` are those of
        :meth:`QueueClient.create_schedule`.

        Raises:
            InvalidArgumentError: it decorates no task, or one that needs arguments; or the name is taken, or an
                argument is invalid.
        """

        def register(task: Task[P, R]) -> Task[P, R]:
            if not isinstance(task, Task):
                raise InvalidArgumentError("periodic decorates a task: put @tasks.task(queue=…) below it")
            if not task._arguments.are_optional:  # noqa: SLF001
                raise InvalidArgumentError(f"{task.name} needs arguments, which a schedule does not give: set defaults")
            declared = Periodic(
                name=name or task.name,
                queue=task.queue,
                message=task.message(),
                cron=cron,
                every=every,
                timezone=timezone,
                catch_up=catch_up,
                jitter=jitter or None,
            )
            checked_schedule(**vars(declared), start=None, end=None)
            if self._periodic.setdefault(declared.name, declared) is not declared:
                raise InvalidArgumentError(f"there is a schedule {declared.name} already: give another name=")
            return task

        return register

    @contextmanager
    def using(self, client: QueueClient) -> Iterator[None]:
        """Sends, waits and declares by another client in the block, as tests do, in all threads.

        Raises:
            InvalidArgumentError: it is no client of :mod:`pgqueue`.
        """
        before = self.client
        self._use(client)
        try:
            yield
        finally:
            self._use(before)

    def _use(self, client: QueueClient) -> None:
        if not isinstance(client, QueueClient):
            raise InvalidArgumentError(f"Tasks takes a client of pgqueue, not {shown(client)}")
        self.client = client
        for task in self._declared:
            task._use(client)  # noqa: SLF001

    # this face only: where tasks are run
    @property
    def run_as_tasks(self) -> bool:
        """Whether they belong in an event loop."""
        return False

    # end

    def only(self, *queues: str) -> Handlers:
        """The tasks of some queues, with their schedules."""
        chosen = Tasks(self.client)
        chosen._declared = self._declared
        chosen._by_queue = self._of(queues)
        chosen._periodic = {name: each for name, each in self._periodic.items() if each.queue in queues}
        return chosen

    def declare_schedules(self, *, client: QueueClient | None = None) -> None:
        """Creates the schedules of periodic tasks, and replaces those whose declarations have changed.

        ``client`` is by default that of the tasks.

        A worker calls this when it begins to run. It writes only schedules that differ, so the worker needs the rights
        of an administrator only after a change. To run workers without these rights, call this when you deploy.

        Raises:
            AccessDeniedError: a schedule differs, and only administrators may create or replace it.
            QueueNotFoundError: a queue does not exist.
            InvalidArgumentError: a schedule is invalid.
        """
        chosen = self.client if client is None else client
        if not isinstance(chosen, QueueClient):
            raise InvalidArgumentError(f"client must be a QueueClient, not {shown(chosen)}")
        source = source_of(chosen)
        for each in self._periodic.values():
            message = each.message if source.interceptors is None else source.interceptors.changed(each.message)
            drive(schedules.declare(replace(each, message=message), bodies_of(source), source))
