"""The asynchronous face of a worker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from pgqueue.aio.client import QueueClient
from pgqueue.aio.queue import Queue
from pgqueue.aio.received import ReceivedMessage
from pgqueue.aio.task import Tasks
from pgqueue.errors import InvalidArgumentError
from pgqueue.flows.flow import bodies_of, source_of
from pgqueue.flows.locked import locked
from pgqueue.leases.renewals import OnFailure
from pgqueue.model.message import BodyT, body_type_of
from pgqueue.worker.handlers import Handlers, routes_of
from pgqueue.worker.health import Health, tally_of
from pgqueue.worker.options import Options, WorkerOptions
from pgqueue.worker.policy import RetryPolicy
from pgqueue.worker.tally import Tally
from pgqueue.worker.tasks import TaskDriver

if TYPE_CHECKING:
    from pgqueue.transports.typed import (
        AsyncPsycopgConnection,
        AsyncSQLAlchemyConnection,
        AsyncSQLAlchemySession,
        GivesAsyncConnection,
        GivesAsyncOtherConnection,
        GivesAsyncPsycopgConnection,
        GivesAsyncSession,
    )


class Worker:
    # this face only: threads and tasks
    """Receives the messages of a queue, or of several, and runs a handler on each, until it is stopped.

    ``Worker(queue, handler)`` serves one queue, ``Worker(client, handlers)`` all queues of :class:`pgqueue.Handlers`,
    ``Worker(tasks)`` those of :class:`pgqueue.Tasks`; they share connections, and stop together.

    The handler is a coroutine function, ``handler(message)`` or ``handler(message, tx)``. The second form needs
    ``transaction``: ``"psycopg"`` (it gets an AsyncConnection), ``"sqlalchemy"`` (an AsyncSession), or a source of your
    own: an asynchronous engine or session maker, or a pool of psycopg or asyncpg. The message is then completed in the
    transaction that the handler works in: both take effect or neither. A plain function without a transaction runs in a
    thread.

    With ``transaction_batch=n`` up to n messages share a transaction and its commit. When the handler fails on one of
    them, the transaction is rolled back and each message gets its own transaction, the failed one last.

    ``concurrency`` is the number of handlers that run at a time, for each queue. ``retry``, by default
    ``RetryPolicy()``, decides what to do when a handler fails. Up to ``prefetch`` messages are locked ahead: fewer, the
    longer the handler takes; none for slow handlers. A handler that exceeds ``handler_timeout`` is cancelled;
    a plain function goes on, and its result is ignored.

    A thread with its own connection renews the locks of the messages in hand for up to ``max_lock_renewal_duration``,
    even while the event loop is blocked. When a renewal fails, ``on_lock_renew_failure(message, error)`` is called in
    that thread; the handler is cancelled, unless several messages were taken together, and can no longer commit.

    A queue that requires sessions is worked by session: up to ``concurrency`` sessions at a time, one message of each
    after the other, in order. A session is released when it has been empty for
    ``session_idle_timeout``, by default at once, or after ``max_messages_per_session``: then others have their turn.

    On :meth:`stop`, handlers that run get ``grace_period`` to finish. With ``sweep_interval`` the worker sweeps the
    database at that interval; when several workers do, only one sweeps at a time.

    Raises:
        InvalidArgumentError: an argument is invalid.
    """

    # end

    @overload
    def __init__(
        self,
        queue: Queue[BodyT],
        handler: Callable[[ReceivedMessage[BodyT]], object],
        *,
        transaction: None = None,
        **options: Unpack[WorkerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        queue: Queue[BodyT],
        handler: Callable[[ReceivedMessage[BodyT], AsyncPsycopgConnection], Awaitable[object]],
        *,
        transaction: Literal["psycopg"] | GivesAsyncPsycopgConnection,
        **options: Unpack[WorkerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        queue: Queue[BodyT],
        handler: Callable[[ReceivedMessage[BodyT], AsyncSQLAlchemySession], Awaitable[object]],
        *,
        transaction: Literal["sqlalchemy"] | GivesAsyncSession,
        **options: Unpack[WorkerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        queue: Queue[BodyT],
        handler: Callable[[ReceivedMessage[BodyT], AsyncSQLAlchemyConnection], Awaitable[object]],
        *,
        transaction: GivesAsyncConnection,
        **options: Unpack[WorkerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        queue: Queue[BodyT],
        handler: Callable[[ReceivedMessage[BodyT], Any], Awaitable[object]],
        *,
        transaction: GivesAsyncOtherConnection,
        **options: Unpack[WorkerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        queue: QueueClient,
        handler: Handlers,
        *,
        transaction: Literal["psycopg", "sqlalchemy"]
        | GivesAsyncPsycopgConnection
        | GivesAsyncOtherConnection
        | GivesAsyncSession
        | GivesAsyncConnection
        | None = None,
        **options: Unpack[WorkerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        queue: Tasks,
        *,
        transaction: Literal["psycopg", "sqlalchemy"]
        | GivesAsyncPsycopgConnection
        | GivesAsyncOtherConnection
        | GivesAsyncSession
        | GivesAsyncConnection
        | None = None,
        **options: Unpack[WorkerOptions],
    ) -> None: ...

    def __init__(
        self,
        queue: Queue[Any] | QueueClient | Tasks,
        handler: Callable[..., Any] | Handlers | None = None,
        *,
        concurrency: int = 8,
        transaction: object = None,
        transaction_batch: int = 1,
        retry: RetryPolicy | None = None,
        prefetch: int = 1_000,
        handler_timeout: timedelta | None = None,
        max_lock_renewal_duration: timedelta = timedelta(hours=1),
        on_lock_renew_failure: OnFailure | None = None,
        grace_period: timedelta = timedelta(seconds=30),
        sweep_interval: timedelta | None = None,
        session_idle_timeout: timedelta = timedelta(0),
        max_messages_per_session: int | None = 100,
    ) -> None:
        handler = queue if handler is None and isinstance(queue, Tasks) else handler
        queue = queue.client if isinstance(queue, Tasks) else queue
        if not isinstance(queue, Queue | QueueClient):
            given = f"{type(queue).__module__}.{type(queue).__qualname__}"
            raise InvalidArgumentError(f"pgqueue.aio.Worker takes a queue or a client of pgqueue.aio, not {given}")
        if isinstance(handler, Tasks) and source_of(handler.client).schema != source_of(queue).schema:
            raise InvalidArgumentError(
                f'the tasks are sent to the schema "{source_of(handler.client).schema}", and this worker receives from '
                f'"{source_of(queue).schema}": use one schema for both'
            )
        name = queue.name if isinstance(queue, Queue) else None
        body_type = body_type_of(queue) if isinstance(queue, Queue) else bodies_of(source_of(queue))
        make = partial(locked, ReceivedMessage, body_type=body_type)
        options = Options(
            routes=routes_of(name, handler, ReceivedMessage),
            concurrency=concurrency,
            transaction=transaction,
            retry=retry or RetryPolicy(),
            transaction_batch=transaction_batch,
            prefetch=prefetch,
            handler_timeout=handler_timeout,
            max_lock_renewal_duration=max_lock_renewal_duration,
            on_lock_renew_failure=on_lock_renew_failure,
            grace_period=grace_period,
            sweep_interval=sweep_interval,
            session_idle_timeout=session_idle_timeout,
            max_messages_per_session=max_messages_per_session,
        )
        self._driver = TaskDriver(source_of(queue), make, options)
        self._client = queue
        self._tasks = handler if isinstance(handler, Tasks) else None

    @property
    def tally(self) -> Tally:
        """Counts of messages received, completed, failed, lost and timed out since the worker started."""
        return tally_of(self._driver.services)

    async def run(self) -> None:
        """Runs until :meth:`stop`, SIGTERM or SIGINT.

        Then the worker receives nothing more, lets running handlers finish within the grace period, and gives back the
        messages that no handler has started. A second signal ends the process at once. While the database cannot be
        reached, the worker waits for it.

        Raises:
            QueueNotFoundError: the queue does not exist.
            AccessDeniedError: the role may not use the queue.
            SchemaVersionError: the schema does not fit this version of pgqueue.
            InvalidStateError: the worker has already run; make another.
        """
        if self._tasks is not None and isinstance(self._client, QueueClient):
            await self._tasks.declare_schedules(client=self._client)
        await self._driver.run()

    def stop(self) -> None:
        """Asks the worker to stop; :meth:`run` returns once it has. Safe to call from anywhere, more than once."""
        self._driver.stop()

    def health(self) -> Health:
        """Returns the health of the worker; see :class:`pgqueue.Health`."""
        return self._driver.health()
