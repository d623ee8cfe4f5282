"""What a gateway is told when it starts."""

from __future__ import annotations

import ssl
from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Where a gateway listens, and what it holds in memory at the most.

    ``listen`` and ``administration`` are an address and a port; with ``tls`` clients connect by TLS. ``websocket`` is
    where clients connect by WebSockets. ``secret`` is what keys are derived from, besides their salts. With
    ``json_bodies`` a body of a JSON content type is stored as JSON. Sizes are in bytes.
    """

    dsn: str
    schema: str = "pgqueue"
    listen: tuple[str, int] = ("127.0.0.1", 5672)
    websocket: tuple[str, int] | None = None
    administration: tuple[str, int] | None = None
    tls: ssl.SSLContext | None = None
    secret: bytes = b""
    json_bodies: bool = False
    max_message_size: int = 1024 * 1024
    max_frame_size: int = 65_536
    max_links: int = 4096
    memory: int = 256 * 1024 * 1024
