"""``pgqueue worker``: a worker as a process of its own."""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import pgqueue.aio
from pgqueue import QueueClient
from pgqueue.cli import output
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.failures import WRONG_USE, Failed, WrongUse, failure_of
from pgqueue.cli.quantities import parse_duration
from pgqueue.model.calls import is_coroutine_function
from pgqueue.worker import Worker
from pgqueue.worker.child import Reporter
from pgqueue.worker.exposition import Exposition, Monitored
from pgqueue.worker.handling import takes_a_transaction
from pgqueue.worker.probes import Ask, Scrape, healthy_file, healthy_port
from pgqueue.worker.processes import Processes

Watch = Callable[[Monitored], AbstractContextManager[object]]


@on_database
def worker(
    database: Database,
    handler: Annotated[str, typer.Argument(metavar="MODULE:FUNCTION", help="f(message), or f(message, tx).")],
    queue: Annotated[str, typer.Argument(help="The queue to work off.")],
    concurrency: Annotated[int, typer.Option(min=1, help="Handlers at a time.")] = 8,
    transaction: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="What f gets as tx: psycopg (the default) or sqlalchemy."),
    ] = None,
    transaction_batch: Annotated[int, typer.Option(min=1, help="Messages that share a transaction.")] = 1,
    handler_timeout: Annotated[
        timedelta | None, typer.Option(parser=parse_duration, metavar="DURATION", help="How long a handler may take.")
    ] = None,
    grace_period: Annotated[
        timedelta,
        typer.Option(parser=parse_duration, metavar="DURATION", help="How long to finish what runs when stopped."),
    ] = "30s",  # type: ignore[assignment]  # typer parses defaults, too
    sweep_interval: Annotated[
        timedelta | None, typer.Option(parser=parse_duration, metavar="DURATION", help="Sweep the database so often.")
    ] = None,
    processes: Annotated[int, typer.Option(min=1, help="Worker processes, each with --concurrency handlers.")] = 1,
    health_file: Annotated[Path | None, typer.Option(help="Written every second while the worker is alive.")] = None,
    health_port: Annotated[int | None, typer.Option(min=0, max=65535, help="Answers GET /health and /metrics.")] = None,
) -> None:
    """Run a handler on each message of a queue, until SIGTERM or SIGINT.

    The handler is imported from the current directory, or from where Python finds modules. On SIGTERM the worker claims
    nothing more, finishes what runs, gives back what was not begun, and exits with 0; a second signal ends it at once.
    With several processes one that dies is replaced, and the health and the metrics are those of all.
    """
    options: dict[str, Any] = {
        "concurrency": concurrency,
        "transaction": transaction,
        "transaction_batch": transaction_batch,
        "handler_timeout": handler_timeout,
        "grace_period": grace_period,
        "sweep_interval": sweep_interval,
    }
    run = _run_alone if processes == 1 else partial(_run_several, processes)
    run(Work(database.dsn, queue, handler, options), database.client, health_file, health_port)
    output.say("stopped")


class MonitoredWorker(Worker):
    """A worker with access to its driver, for health and metrics."""

    @property
    def driver(self) -> Monitored:
        return self._driver


class MonitoredAsyncWorker(pgqueue.aio.Worker):
    """The same for an asynchronous handler."""

    @property
    def driver(self) -> Monitored:
        return self._driver


@dataclass(frozen=True)
class Work:
    """What a worker process runs; picklable."""

    dsn: str
    queue: str
    handler: str
    options: Mapping[str, Any]

    def run(self, client: QueueClient, function: Callable[..., Any], watch: Watch) -> None:
        options = dict(self.options)
        if options["transaction"] is None and takes_a_transaction(function):
            options["transaction"] = "psycopg"
        if is_coroutine_function(function):
            asyncio.run(self._run_asynchronously(function, options, watch))
        else:
            made = MonitoredWorker(client.queue(self.queue), function, **options)
            with watch(made.driver):
                made.run()

    async def _run_asynchronously(self, function: Callable[..., Any], options: dict[str, Any], watch: Watch) -> None:
        async with pgqueue.aio.QueueClient(self.dsn) as client:
            made = MonitoredAsyncWorker(client.queue(self.queue), function, **options)
            with watch(made.driver):
                await made.run()


def _run_alone(work: Work, client: QueueClient, file: Path | None, port: int | None) -> None:
    def watch(worker: Monitored) -> ExitStack:
        return _probed(worker.health, Exposition(worker, work.queue, work.dsn).text, file, port)

    function = load(work.handler)
    _log()
    client.get_queue(work.queue)
    work.run(client, function, watch)


def _run_several(count: int, work: Work, client: QueueClient, file: Path | None, port: int | None) -> None:
    """Only the child processes import the handler: its import may have effects that must not happen twice."""
    _log(process="[%(process)d] ")
    client.get_queue(work.queue)
    client.close()
    processes = Processes(count, partial(_be_one_of_several, work, port is not None), work.queue, work.dsn)
    with _probed(processes.health, processes.text, file, port):
        processes.run()


def _be_one_of_several(work: Work, measured: bool, reporter: Reporter) -> None:
    """Raise what a single worker would report as its error line; the parent reports it."""

    def watch(worker: Monitored) -> AbstractContextManager[None]:
        return reporter.reporting(worker, work.queue, measured=measured)

    _log(process="[%(process)d] ")
    logging.getLogger("psycopg").addHandler(logging.NullHandler())
    try:
        with QueueClient(work.dsn) as client:
            work.run(client, load(work.handler), watch)
    except Exception as error:
        failure = failure_of(error)
        raise (WrongUse if failure.exit_code == WRONG_USE else Failed)(failure.line) from error


def _log(process: str = "") -> None:
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s %(levelname)s {process}%(name)s: %(message)s")


def load(name: str) -> Callable[..., Any]:
    """Return the function that ``module:function`` names."""
    module_name, _, path = name.partition(":")
    if not module_name or not path:
        raise WrongUse(f"{name!r} names no handler: write module:function")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise Failed(f"{module_name} could not be imported: {error}") from error
        raise WrongUse(f"there is no module {module_name} here, nor where Python looks for modules") from error
    except Exception as error:
        raise Failed(f"{module_name} could not be imported: {type(error).__name__}: {error}") from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise WrongUse(f"{module_name} has no {path}")
        found = getattr(found, part)
    if not callable(found):
        raise WrongUse(f"{name} is not a function")
    return found  # type: ignore[no-any-return]


def _probed(ask: Ask, scrape: Scrape, file: Path | None, port: int | None) -> ExitStack:
    stack = ExitStack()
    if file is not None:
        stack.enter_context(healthy_file(file, ask))
    if port is not None:
        output.say(f"health on port {stack.enter_context(healthy_port(port, ask, scrape))}")
    return stack
