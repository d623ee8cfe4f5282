"""``pgqueue worker``: a worker as a process of its own."""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

import pgqueue.aio
from pgqueue.cli import output
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.failures import Failed, WrongUse
from pgqueue.cli.quantities import parse_duration
from pgqueue.model.calls import is_coroutine_function
from pgqueue.worker import Worker
from pgqueue.worker.exposition import Exposition
from pgqueue.worker.handling import takes_a_transaction
from pgqueue.worker.probes import healthy_file, healthy_port


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
    health_file: Annotated[Path | None, typer.Option(help="Written every second while the worker is alive.")] = None,
    health_port: Annotated[int | None, typer.Option(min=0, max=65535, help="Answers GET /health and /metrics.")] = None,
) -> None:
    """Run a handler on each message of a queue, until SIGTERM or SIGINT.

    The handler is imported from the current directory, or from where Python finds modules. On SIGTERM the worker claims
    nothing more, finishes what runs, gives back what was not begun, and exits with 0; a second signal ends it at once.
    """
    function = load(handler)
    if transaction is None and takes_a_transaction(function):
        transaction = "psycopg"
    options: dict[str, Any] = {
        "concurrency": concurrency,
        "transaction": transaction,
        "transaction_batch": transaction_batch,
        "handler_timeout": handler_timeout,
        "grace_period": grace_period,
        "sweep_interval": sweep_interval,
    }
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    database.client.get_queue(queue)
    if is_coroutine_function(function):
        asyncio.run(_run_asynchronously(database.dsn, queue, function, options, health_file, health_port))
    else:
        made = Worker(database.client.queue(queue), function, **options)
        with _probed(made, queue, database.dsn, health_file, health_port):
            made.run()
    output.say("stopped")


async def _run_asynchronously(
    dsn: str, queue: str, function: Callable[..., Any], options: dict[str, Any], file: Path | None, port: int | None
) -> None:
    async with pgqueue.aio.QueueClient(dsn) as client:
        made = pgqueue.aio.Worker(client.queue(queue), function, **options)
        with _probed(made, queue, dsn, file, port):
            await made.run()


def load(name: str) -> Callable[..., Any]:
    """The function that ``module:function`` names."""
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


def _probed(made: Worker | pgqueue.aio.Worker, queue: str, dsn: str, file: Path | None, port: int | None) -> ExitStack:
    stack = ExitStack()
    if file is not None:
        stack.enter_context(healthy_file(file, made.health))
    if port is not None:
        scrape = Exposition(made._driver, queue, dsn).text
        output.say(f"health on port {stack.enter_context(healthy_port(port, made.health, scrape))}")
    return stack
