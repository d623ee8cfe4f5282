"""The driver of a worker that runs its handlers as tasks of an event loop."""

from __future__ import annotations

import asyncio
from typing import Any

from pgqueue.errors import InvalidArgumentError
from pgqueue.flows import Flow, Source
from pgqueue.leases.loop import AsyncEvent
from pgqueue.transports import adrive
from pgqueue.worker.driver import Driver
from pgqueue.worker.handler_tasks import HandlerTasks
from pgqueue.worker.options import Options
from pgqueue.worker.service import QueueService
from pgqueue.worker.sessions import Make
from pgqueue.worker.signals import stopped_by_signals
from pgqueue.worker.stopping import LAST_CLOSES, warn_of_silence


class TaskDriver(Driver):
    """The driver of :class:`pgqueue.aio.Worker`: for each queue, tasks of the handlers, and two for its loops.

    Locks are renewed in a thread, so a blocked event loop loses none.
    """

    asynchronous = True
    connections = 1

    def __init__(self, source: Source, make: Make, options: Options) -> None:
        for handler in options.handlers:
            if handler.takes_transaction and not handler.is_coroutine:
                raise InvalidArgumentError(
                    f"{handler.name} takes a transaction, and is not a coroutine function: use pgqueue.Worker, or make"
                    " it one"
                )
        self._handlers: list[HandlerTasks] = []
        super().__init__(source, make, options, AsyncEvent, self._make_handlers)

    def _make_handlers(self, service: QueueService) -> HandlerTasks:
        handlers = HandlerTasks(service)
        self._handlers.append(handlers)
        return handlers

    async def run(self) -> None:
        self.require_first_run()
        try:
            self.start()
            with stopped_by_signals(self.stop):
                await self._run_services()
        finally:
            self.stop()
            try:
                await asyncio.gather(*(handlers.cancel() for handlers in self._handlers))
            finally:  # it begins with the renewals: once more cancelled, the worker keeps no lock
                await adrive(self.close())
        self.raise_error()

    async def _run_services(self) -> None:
        """Run them until all have stopped, or the time for that is over."""
        working: asyncio.Future[Any] = asyncio.gather(*map(self._run_service, self.services))
        stopped: asyncio.Future[Any] = asyncio.create_task(self.stopping.wait())
        try:
            await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({working}, timeout=self.stopping.time_left)
            if working.done():
                working.result()
            else:
                warn_of_silence()
        finally:
            stopped.cancel()
            working.cancel()
            await asyncio.wait({working}, timeout=LAST_CLOSES)

    async def _run_service(self, service: QueueService) -> None:
        completing = asyncio.create_task(self._run_to_its_end(service.completing.run()))
        await self._run_to_its_end(service.claiming.run())
        await completing
        await self._run_to_its_end(service.wind_up())

    async def _run_to_its_end(self, flow: Flow[None]) -> None:
        try:
            await adrive(flow)
        except Exception as error:  # noqa: BLE001 - raised when all services are wound up
            self.end_with(error)
