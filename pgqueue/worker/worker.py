"""The synchronous face of a worker."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from pgqueue.queue import Queue
from pgqueue.received import ReceivedMessage
from pgqueue.worker.dispatcher import Tally
from pgqueue.worker.health import Health
from pgqueue.worker.lock_renewals import OnFailure
from pgqueue.worker.options import Options
from pgqueue.worker.policy import RetryPolicy
from pgqueue.worker.threads import ThreadDriver


class Worker:
    """Receives the messages of a queue and runs a handler on each, until it is stopped.

    The handler is ``handler(message)`` or ``handler(message, tx)``. The second form needs ``transaction``:
    ``"psycopg"`` (it gets a connection), ``"sqlalchemy"`` (a session), or a source of your own: an engine, a session
    maker or a pool. The message is then completed in the transaction that the handler works in: both take effect or
    neither. A coroutine function runs in an event loop of its thread; to run many at once, see
    :class:`pgqueue.aio.Worker`.

    With ``transaction_batch=n`` up to n messages share a transaction and its commit. When the handler fails on one of
    them, the transaction is rolled back and each message gets its own transaction, the failed one last.

    ``concurrency`` is the number of threads. ``retry``, by default ``RetryPolicy()``, says what to do when a handler
    fails. Up to ``prefetch`` messages are locked ahead for the next free threads: fewer, the longer the handler takes;
    none for slow handlers. A handler that exceeds ``handler_timeout`` loses its message, its transaction and its
    thread.

    A thread with its own connection renews the locks of the messages in hand for up to ``max_lock_renewal_duration``.
    ``on_lock_renew_failure(message, error)`` is called when a renewal fails; the handler sees it in
    ``message.lock_lost``, and can no longer commit.

    On :meth:`stop`, handlers that run get ``grace_period`` to finish. With ``sweep_interval`` the worker sweeps the
    database at that interval; when several workers do, only one sweeps at a time.

    Raises:
        InvalidArgumentError: an argument is invalid.
    """

    def __init__(
        self,
        queue: Queue,
        handler: Callable[..., Any],
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
    ) -> None:
        options = Options(
            handler=handler,
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
        )
        self._driver = ThreadDriver(queue.name, queue._source, ReceivedMessage._locked, options)

    @property
    def tally(self) -> Tally:
        """Counts of messages received, completed, failed, lost and timed out since the worker started."""
        return self._driver.dispatcher.tally

    def run(self) -> None:
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
        self._driver.run()

    def stop(self) -> None:
        """Asks the worker to stop; :meth:`run` returns once it has. Safe to call from anywhere, more than once."""
        self._driver.stop()

    def health(self) -> Health:
        """Returns the health of the worker; see :class:`pgqueue.Health`."""
        return self._driver.health()
