"""``pgqueue worker``: a worker as a process of its own."""

from __future__ import annotations

import asyncio
import builtins
import importlib
import inspect
import logging
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import pgqueue.aio
from pgqueue import QueueClient
from pgqueue.cli import output
from pgqueue.cli.completion import queue_names
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.encrypting import from_environment
from pgqueue.cli.exit_codes import WRONG_USE
from pgqueue.cli.failures import Failed, WrongUse, binding, failure_of
from pgqueue.cli.group import top
from pgqueue.cli.logs import LogFormat, LogLevel, log_to_stderr
from pgqueue.cli.options import Options, duration
from pgqueue.cli.quantities import format_duration
from pgqueue.cli.reloading import run_reloading
from pgqueue.errors import logger
from pgqueue.model.handler import TakesArguments
from pgqueue.worker import Handlers, RetryPolicy, Worker
from pgqueue.worker.child import Reporter
from pgqueue.worker.exposition import Exposition
from pgqueue.worker.health import Monitored, driver_of
from pgqueue.worker.probes import Ask, Scrape, healthy_file, healthy_port
from pgqueue.worker.processes import Processes
from pgqueue.worker.signals import stopped_by_signals

Watch = Callable[[Monitored], AbstractContextManager[object]]

RETRIES = "When a handler fails"
OPERATION = "Operation"


def _options(made: Callable[..., Any], meanings: Mapping[str, str], panel: str | None = None) -> Options:
    """Options for arguments of what is made, with its defaults."""
    arguments = inspect.signature(made, eval_str=True).parameters
    defaults = {name: arguments[name].default for name in meanings}
    options = {}
    for name, meaning in meanings.items():
        kinds = typing.get_args(arguments[name].annotation) or (arguments[name].annotation,)
        if timedelta in kinds:
            options[name] = Annotated[timedelta | None, duration(meaning, rich_help_panel=panel)]
            defaults[name] = None if defaults[name] is None else format_duration(defaults[name])
        elif float in kinds:
            options[name] = Annotated[float | None, typer.Option(min=0, max=1, help=meaning, rich_help_panel=panel)]
        else:
            options[name] = Annotated[int | None, typer.Option(min=1, help=meaning, rich_help_panel=panel)]
    return Options(options, defaults)


SERVING = {
    "transaction_batch": "Messages that share a transaction.",
    "handler_timeout": "How long a handler may take.",
    "grace_period": "How long to finish what runs when stopped.",
    "sweep_interval": "Sweep the database so often.",
    "session_idle_timeout": "How long to hold a session that is empty.",
    "max_messages_per_session": "Messages of a session before another has its turn.",
}
RETRYING = {
    "transaction_attempts": "Attempts of a transaction on one lock.",
    "max_attempts": "Deliveries until it is dead-lettered, if less than the queue's.",
    "first_delay": "The delay of the second delivery.",
    "max_delay": "The delay doubles up to this.",
    "jitter": "The share by which delays vary.",
}


@on_database(top, "worker", short_help="Run handlers on messages until SIGTERM or SIGINT.")
def worker(
    database: Database,
    handler: Annotated[
        str, typer.Argument(metavar="MODULE:NAME", help="A function f(message) or f(message, tx), Handlers, or Tasks.")
    ],
    queues: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="QUEUE", help="The queues to serve; by default all of Handlers.", autocompletion=queue_names
        ),
    ] = None,
    interceptors: Annotated[
        str | None, typer.Option(metavar="MODULE:NAME", help="A list of interceptors for the worker's client.")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Handlers at a time, for each queue.")] = 8,
    transaction: Annotated[
        str | None,
        typer.Option(
            metavar="KIND", help="The type of f's argument tx: psycopg or sqlalchemy; by default by its annotation."
        ),
    ] = None,
    *,
    options: Annotated[dict[str, Any], _options(Worker, SERVING)],
    retry: Annotated[dict[str, Any], _options(RetryPolicy, RETRYING, RETRIES)],
    dead_letter_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE:ERROR", help="An exception that is not tried again; repeatable.", rich_help_panel=RETRIES
        ),
    ] = None,
    processes: Annotated[
        int, typer.Option(min=1, help="Worker processes, each with --concurrency handlers.", rich_help_panel=OPERATION)
    ] = 1,
    reload: Annotated[
        bool,
        typer.Option("--reload", help="Restart when a module changes: for development.", rich_help_panel=OPERATION),
    ] = False,
    health_file: Annotated[
        Path | None, typer.Option(help="Written every second while the worker is alive.", rich_help_panel=OPERATION)
    ] = None,
    health_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Answers GET /health and /metrics.", rich_help_panel=OPERATION)
    ] = None,
    log_level: Annotated[
        LogLevel, typer.Option(help="The least level that is logged.", rich_help_panel=OPERATION)
    ] = LogLevel.INFO,
    log_format: Annotated[
        LogFormat, typer.Option(help="Lines for people, or JSON for programs.", rich_help_panel=OPERATION)
    ] = LogFormat.TEXT,
) -> None:
    """Run handlers on the messages of one queue or several, until SIGTERM or SIGINT.

    A function is run on each message of the queues that are named. Handlers and Tasks, with which an application
    registers functions by queue and subject, define themselves what they serve. All are imported from the current
    directory, or from where Python finds modules. On SIGTERM the worker claims nothing more, finishes what runs, gives
    back what was not begun, and exits with 0; a second signal ends it at once. With several processes one that dies is
    replaced, and the health and the metrics are those of all.
    """
    if reload:
        run_reloading()
        return
    work = Work(
        database.dsn,
        database.schema,
        handler,
        queues or (),
        {"concurrency": concurrency, "transaction": transaction, **options},
        RetryPolicy(**retry),
        dead_letter_on or (),
        partial(log_to_stderr, log_level, log_format),
        interceptors,
    )
    run = _run_alone if processes == 1 else partial(_run_several, processes)
    run(work, database.client, health_file, health_port)
    output.say("stopped")


@dataclass(frozen=True)
class Work:
    """The program of a worker process; picklable."""

    dsn: str = field(repr=False)
    schema: str
    handler: str
    queues: Sequence[str]
    options: Mapping[str, Any]
    retry: RetryPolicy
    dead_letter_on: Sequence[str]
    log: Callable[..., None]
    interceptors: str | None = None

    def run(self, client: QueueClient, watch: Watch) -> None:
        handlers = self._load()
        errors = tuple(load_error(name) for name in self.dead_letter_on)
        options = {**self.options, "retry": replace(self.retry, dead_letter_on=errors)}
        if options["transaction"] is None:
            options["transaction"] = handlers.transaction_kind
        handlers.check_one_kind()
        for queue in handlers.queues:
            client.get_queue(queue)
        if handlers.run_as_tasks:
            asyncio.run(self._run_asynchronously(handlers, options, watch))
            return
        with QueueClient(self.dsn, interceptors=self._interceptors(), schema=self.schema) as intercepted:
            made = Worker(intercepted, handlers, **options)
            with stopped_by_signals(made.stop):  # from what is announced on, not only while it runs
                self._announce(handlers, options)
                with watch(driver_of(made)):
                    made.run()

    async def _run_asynchronously(self, handlers: Handlers, options: dict[str, Any], watch: Watch) -> None:
        chosen = pgqueue.aio.QueueClient(self.dsn, interceptors=self._interceptors(), schema=self.schema)
        async with chosen as client:
            made = pgqueue.aio.Worker(client, handlers, **options)
            with stopped_by_signals(made.stop):
                self._announce(handlers, options)
                with watch(driver_of(made)):
                    await made.run()

    def _interceptors(self) -> list[Any]:
        """Those that are named, and the keys of the environment."""
        named = [] if self.interceptors is None else load(self.interceptors)
        if not isinstance(named, list | tuple):
            raise WrongUse(f"--interceptors {self.interceptors} names no list")
        return [*named, *from_environment()]

    def _load(self) -> Handlers:
        found = load(self.handler)
        if isinstance(found, Handlers):
            return found.only(*self.queues) if self.queues else found
        if not callable(found):
            raise WrongUse(f"{self.handler} is not a function, nor Handlers")
        if isinstance(found, TakesArguments):
            raise WrongUse(f"{self.handler} is a task: name the Tasks that have it, such as MODULE:tasks")
        if not self.queues:
            raise WrongUse(f"{self.handler} is a function: name the queue that it works off")
        handlers = Handlers()
        for queue in self.queues:
            handlers.handler(queue)(found)
        return handlers

    def _announce(self, handlers: Handlers, options: Mapping[str, Any]) -> None:
        kind = options["transaction"]
        logger.info(
            "serving %s, %s at a time each%s",
            ", ".join(handlers.queues),
            options["concurrency"],
            f", transactions of {kind}" if kind else "",
        )
        for line in handlers.describe():
            logger.info("serving %s", line)


def _run_alone(work: Work, client: QueueClient, file: Path | None, port: int | None) -> None:
    def watch(worker: Monitored) -> ExitStack:
        return _probed(worker.health, Exposition(worker, work.dsn, work.schema).text, file, port)

    work.log(with_process=False)
    work.run(client, watch)


def _run_several(count: int, work: Work, client: QueueClient, file: Path | None, port: int | None) -> None:
    """Only the child processes import the handlers: their import may have effects that must not happen twice."""
    work.log(with_process=True)
    for queue in work.queues:
        client.get_queue(queue)
    client.close()
    processes = Processes(count, partial(_be_one_of_several, work, port is not None), work.dsn, work.schema)
    with _probed(processes.health, processes.text, file, port):
        processes.run()


def _be_one_of_several(work: Work, measured: bool, reporter: Reporter) -> None:
    """Raise what a single worker would report as its error line; the parent reports it."""

    def watch(worker: Monitored) -> AbstractContextManager[None]:
        return reporter.reporting(worker, measured=measured)

    work.log(with_process=True)
    logging.getLogger("psycopg").addHandler(logging.NullHandler())
    try:
        with QueueClient(work.dsn, schema=work.schema) as client:
            work.run(client, watch)
    except Exception as error:
        failure = failure_of(error)
        raise (WrongUse if failure.exit_code == WRONG_USE else Failed)(failure.line) from error


def load_error(name: str) -> type[BaseException]:
    """Return the exception that ``module:name`` names, or that Python itself has under this name."""
    found = load(name) if ":" in name else getattr(builtins, name, None)
    if not isinstance(found, type) or not issubclass(found, BaseException):
        raise WrongUse(f"--dead-letter-on {name} names no exception: write module:name")
    return found


def load(name: str) -> Any:
    """Return what ``module:name`` names."""
    module_name, _, path = name.partition(":")
    if not module_name or not path:
        raise WrongUse(f"{name!r} names nothing to import: write module:name")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise Failed(f"{module_name} could not be imported: {error}") from error
        written = f": write {module_name[:-3]}:{path}, without .py" if module_name.endswith(".py") else ""
        where = "here, nor where Python looks for modules"
        raise WrongUse(f"there is no module {module_name} {where}{written}") from error
    except Exception as error:
        raise Failed(f"{module_name} could not be imported: {type(error).__name__}: {error}") from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise WrongUse(f"{module_name} has no {path}")
        found = getattr(found, part)
    return found


def _probed(ask: Ask, scrape: Scrape, file: Path | None, port: int | None) -> ExitStack:
    stack = ExitStack()
    if file is not None:
        stack.enter_context(healthy_file(file, ask))
    if port is not None:
        with binding(port, "--health-port"):
            bound = stack.enter_context(healthy_port(port, ask, scrape))
        output.say(f"health on port {bound}")
    return stack
