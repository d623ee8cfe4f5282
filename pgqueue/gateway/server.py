"""Listening: TCP and TLS, and WebSockets."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

from pgqueue.gateway.connection import Connection
from pgqueue.gateway.gateway import Gateway
from pgqueue.gateway.settings import Settings

logger = logging.getLogger("pgqueue.gateway")

CHUNK = 65_536

#: How long a client may take to read what was sent last, in seconds.
PATIENCE = 2

#: The protocol that clients ask for over WebSockets.
SUBPROTOCOL = "AMQPWSB10"


class Stream:
    """The bytes of a connection over TCP or TLS."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    def buffered(self) -> int:
        return self._writer.transport.get_write_buffer_size()

    async def drain(self) -> None:
        with suppress(ConnectionError):
            await self._writer.drain()

    def close(self) -> None:
        self._writer.close()
        asyncio.get_running_loop().call_later(PATIENCE, self._writer.transport.abort)  # if the client does not read


class Socket:
    """The bytes of a connection over a WebSocket: each write is a message."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._waiting: list[bytes] = []
        self._size = 0
        self._has_more = asyncio.Event()
        self._is_empty = asyncio.Event()
        self._is_closed = False

    def write(self, data: bytes) -> None:
        self._waiting.append(data)
        self._size += len(data)
        self._is_empty.clear()
        self._has_more.set()

    def buffered(self) -> int:
        return self._size

    async def drain(self) -> None:
        await self._is_empty.wait()

    def close(self) -> None:
        self._is_closed = True
        self._has_more.set()
        self._is_empty.set()

    async def send(self) -> None:
        """Send what is written, until it is closed."""
        while not self._is_closed or self._waiting:
            if not self._waiting:
                self._is_empty.set()
                self._has_more.clear()
                await self._has_more.wait()
                continue
            waiting, self._waiting = b"".join(self._waiting), []
            await self._socket.send(waiting)
            self._size -= len(waiting)
        await self._socket.close()


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[tuple[Gateway, tuple[str, int]]]:
    """A gateway that serves clients in the block, and where it listens. Raises PGQueueError and OSError."""
    gateway = Gateway(settings)
    async with AsyncExitStack() as stack:
        await gateway.start()
        stack.push_async_callback(_until_all_have_gone, gateway)
        stack.push_async_callback(gateway.stop)
        host, port = settings.listen
        server = await asyncio.start_server(_streams(gateway), host, port, ssl=settings.tls(), limit=CHUNK)
        stack.callback(server.close)
        if settings.websocket is not None:
            await stack.enter_async_context(_websockets(gateway, settings))
        if settings.administration is not None:
            from pgqueue.gateway.administration import listening

            await stack.enter_async_context(listening(gateway))
        yield gateway, server.sockets[0].getsockname()[:2]


async def _until_all_have_gone(gateway: Gateway) -> None:
    while gateway.handlers:
        await asyncio.wait(gateway.handlers)


async def run(settings: Settings, is_ready: Callable[[Gateway, tuple[str, int]], None]) -> None:
    """Serve until SIGTERM or SIGINT."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    async with serving(settings) as (gateway, address):
        is_ready(gateway, address)
        await stopping.wait()


def _streams(gateway: Gateway) -> Any:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = "{}:{}".format(*(writer.get_extra_info("peername") or ("?", 0))[:2])
        connection = gateway.connect(Stream(writer), peer)
        try:
            while not connection.is_closed and (data := await reader.read(CHUNK)):
                await _feed(connection, data)
        except (OSError, asyncio.CancelledError) as error:
            logger.info("%s: the connection broke: %s", peer, error)
        finally:
            connection.close()
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await writer.wait_closed()
            gateway.disconnect(connection)

    return serve


def _websockets(gateway: Gateway, settings: Settings) -> Any:
    from websockets.asyncio.server import ServerConnection, serve
    from websockets.exceptions import ConnectionClosed
    from websockets.typing import Subprotocol

    async def handle(websocket: ServerConnection) -> None:
        peer = "{}:{}".format(*websocket.remote_address[:2])
        socket = Socket(websocket)
        connection = gateway.connect(socket, peer)
        sending = asyncio.create_task(socket.send())
        try:
            async for data in websocket:
                await _feed(connection, data.encode() if isinstance(data, str) else data)
        except ConnectionClosed:
            logger.info("%s: the connection broke", peer)
        finally:
            gateway.disconnect(connection)
            with suppress(ConnectionClosed):
                await sending

    host, port = settings.websocket or ("", 0)
    return serve(
        handle, host, port, ssl=settings.tls(), subprotocols=[Subprotocol(SUBPROTOCOL)], compression=None,
        max_size=4 * settings.max_frame_size,
    )  # fmt: skip


async def _feed(connection: Connection, data: bytes) -> None:
    await connection.room()
    if connection.is_congested:  # a client that does not read is not read either
        await connection.drain()
    await connection.feed(data)
