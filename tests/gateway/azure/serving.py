"""``python -m tests.gateway.azure.serving DSN PORT PORT PORT``: a gateway for AMQP, for WebSockets and for HTTP.

It has a process of its own: the SDK renews locks in busy threads, for which a gateway in its process would wait.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

from pgqueue.gateway.server import run
from pgqueue.gateway.settings import Settings

#: As in the standard tier, which the tests expect.
MAX_MESSAGE_SIZE = 256 * 1024

READY = b"ready\n"


@contextmanager
def gateway(dsn: str, ports: Sequence[int]) -> Iterator[None]:
    """A process that serves in the block."""
    command = [sys.executable, "-m", __name__, dsn, *map(str, ports)]
    with Popen(command, stdout=PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == READY, "the gateway did not start"
            yield
        finally:
            process.terminate()


def main(dsn: str, *ports: str) -> None:
    listen, websocket, administration = (("127.0.0.1", int(port)) for port in ports)
    certificate = Path(os.environ["PGQUEUE_AZURE_CERTIFICATE"])
    settings = Settings(
        dsn, listen=listen, websocket=websocket, administration=administration, certificate=certificate,
        max_message_size=MAX_MESSAGE_SIZE,
    )  # fmt: skip

    def is_ready(*_: object) -> None:
        os.write(sys.stdout.fileno(), READY)

    asyncio.run(run(settings, is_ready))


if __name__ == "__main__":
    main(*sys.argv[1:])
