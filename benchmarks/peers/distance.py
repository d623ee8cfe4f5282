"""``python -m benchmarks.peers.distance SERVER HERE MILLISECONDS``: a proxy that delays all bytes, each way.

Both are directories of PostgreSQL's socket. A process of its own, so that its work is not counted as a client's.
"""

from __future__ import annotations

import queue
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

SOCKET = ".s.PGSQL.5432"

Road = queue.SimpleQueue[tuple[float, bytes]]


def main(server: Path, here: Path, seconds: float) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(here / SOCKET))
        listening.listen(100)
        print("ready", flush=True)
        while True:
            client, _ = listening.accept()
            far = socket.socket(socket.AF_UNIX)
            far.connect(str(server / SOCKET))
            for source, target in ((client, far), (far, client)):
                road: Road = queue.SimpleQueue()
                threading.Thread(target=_depart, args=(source, road, seconds), daemon=True).start()
                threading.Thread(target=_arrive, args=(target, road), daemon=True).start()


def _depart(source: socket.socket, road: Road, seconds: float) -> None:
    said = b"."
    while said:
        said = b""
        with suppress(OSError):
            said = source.recv(262_144)
        road.put((time.monotonic() + seconds, said))


def _arrive(target: socket.socket, road: Road) -> None:
    with suppress(OSError):
        while True:
            due, said = road.get()
            if not said:
                break
            if (left := due - time.monotonic()) > 0:
                time.sleep(left)
            target.sendall(said)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]) / 1000)
