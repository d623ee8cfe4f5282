"""The background threads of a worker: one renews locks and writes heartbeats, and one sweeps if requested."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial

from pgqueue import transports
from pgqueue.errors import PGQueueError
from pgqueue.flows import Flow, Source, sweeping
from pgqueue.leases.loop import LAST_STATEMENT, Heartbeat, Loop
from pgqueue.leases.renewals import Renewals
from pgqueue.transports import drive, time_left
from pgqueue.worker.health import Monitored
from pgqueue.worker.options import Options
from pgqueue.worker.registration import Registration

Died = Callable[[BaseException], None]


class Background:
    """Loops in threads, each with a connection of its own. The error that ends one of them is passed to ``died``."""

    def __init__(self, source: Source, options: Options, died: Died, worker: Monitored) -> None:
        self._source = source
        self._options = options
        self._died = died
        self._over = threading.Event()
        self._short = threading.Event()
        self._ends = ExitStack()
        self._loops: dict[str, Loop] = {}
        self._registration = Registration(worker, options.concurrency)
        #: By queue.
        self.renewals = {
            queue: Renewals(
                queue,
                options.max_lock_renewal_duration,
                options.on_lock_renew_failure,
                self._short,
                source.loss_signal(queue),
            )
            for queue in options.routes
        }

    @property
    def beats(self) -> Mapping[str, Heartbeat]:
        return {name: loop.beat for name, loop in self._loops.items()}

    def start(self) -> None:
        self._start("renewals", self._renew, self._short, self._registration.remove)
        if self._options.sweep_interval is not None:
            self._start("sweeps", self._sweep, threading.Event())

    def close(self) -> None:
        self._over.set()
        self._ends.close()

    def _start(
        self,
        name: str,
        turn: Callable[[Source], Flow[float]],
        woken: threading.Event,
        at_the_end: Callable[[Source], Flow[None]] | None = None,
    ) -> None:
        pool = transports.sized(self._source, 1, asynchronous=False, name=self._options.name)
        loop = Loop(name, partial(turn, pool), self._over, woken, is_long=at_the_end is None)
        end = None if at_the_end is None else at_the_end(pool)
        thread = threading.Thread(target=self._run, args=(loop.run(), end), name=f"pgqueue-{name}", daemon=True)
        self._loops[name] = loop
        self._ends.callback(lambda: drive(pool.close()))
        self._ends.callback(lambda: thread.join(time_left(1.0 if end is None else LAST_STATEMENT)))
        self._ends.callback(woken.set)
        thread.start()

    def _run(self, rounds: Flow[None], end: Flow[None] | None) -> None:
        try:
            drive(rounds)
        except BaseException as error:  # noqa: BLE001 - raised where the worker was started
            self._died(error)
        if end is not None:
            drive(end)

    def _renew(self, pool: Source) -> Flow[float]:
        """Renews the locks of all queues; what fails for one queue keeps no other from its turn."""
        failure: PGQueueError | None = None
        pauses = []
        for renewals in self.renewals.values():
            try:
                pauses.append((yield from renewals.turn(pool)))
            except PGQueueError as error:
                failure = failure or error
        yield from self._registration.turn(pool)  # after the locks: they are not to wait for it
        if failure is not None:
            raise failure
        return min(pauses)

    def _sweep(self, pool: Source) -> Flow[float]:
        yield from sweeping.sweep(pool, dry_run=False)
        assert self._options.sweep_interval is not None
        return self._options.sweep_interval.total_seconds()
