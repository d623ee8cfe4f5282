"""The code of one of several worker processes: it reports to its parent, and does not outlive it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from pgqueue.errors import logger
from pgqueue.worker.exposition import of_worker
from pgqueue.worker.health import Health, Monitored
from pgqueue.worker.signals import has_parent

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

REPORTED_EVERY = 1.0


@dataclass(frozen=True)
class Report:
    """The health of a worker process, the queues that it serves, its metrics, and the metrics of its handlers."""

    health: Health
    queues: Sequence[str] = ()
    metrics: Sequence[Metric] = ()
    others: Sequence[Metric] = ()


class Reporter:
    """Reports to the parent every second, and once more when the worker has ended."""

    def __init__(self, parent: Connection) -> None:
        self._parent = parent

    @contextmanager
    def reporting(self, worker: Monitored, *, measured: bool) -> Iterator[None]:
        over = threading.Event()

        def report() -> None:
            with suppress(OSError):  # the parent has died, and this process ends with it
                self._parent.send(_read(worker) if measured else Report(worker.health()))

        def keep_reporting() -> None:
            report()
            while not over.wait(REPORTED_EVERY):
                report()

        thread = threading.Thread(target=keep_reporting, name="pgqueue-report", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            report()


Work = Callable[[Reporter], None]


def live(parent: Connection, work: Work) -> None:
    """The main function of a process; an error of the work is sent to the parent as the last report.

    Ctrl-C reaches all processes of a terminal, so a child ignores it: the parent stops the children.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    has_parent.set()
    threading.Thread(target=_end_with_the_parent, name="pgqueue-parent", daemon=True).start()
    try:
        work(Reporter(parent))
    except Exception as error:  # noqa: BLE001 - the parent raises it
        with suppress(OSError):
            parent.send(error)
        sys.exit(1)


def _end_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _read(worker: Monitored) -> Report:
    queues = [service.queue for service in worker.services]
    try:
        from prometheus_client import REGISTRY
    except ImportError:
        return Report(worker.health(), queues)
    try:
        others = list(REGISTRY.collect())
    except Exception as error:  # noqa: BLE001 - a collector of the application
        logger.debug("the metrics of the handlers are left out: %s", error)
        others = []
    return Report(worker.health(), queues, list(of_worker(worker)), others)
