"""The settings of a gateway."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """Where a gateway listens, and what it holds in memory at the most.

    ``listen``, ``websocket`` and ``administration`` are addresses and ports, for AMQP, for AMQP over WebSockets and for
    HTTP. With a ``certificate`` and its ``private_key`` clients connect by TLS to all of them. ``secret`` is what keys
    are derived from, besides their salts. With ``json_bodies`` a body of a JSON content type is stored as JSON. Sizes
    are in bytes.
    """

    dsn: str = field(repr=False)
    schema: str = "pgqueue"
    listen: tuple[str, int] = ("127.0.0.1", 5672)
    websocket: tuple[str, int] | None = None
    administration: tuple[str, int] | None = None
    certificate: Path | None = None
    private_key: Path | None = None
    secret: bytes = field(default=b"", repr=False)
    json_bodies: bool = False
    max_message_size: int = 1024 * 1024
    max_frame_size: int = 65_536
    max_links: int = 4096
    memory: int = 256 * 1024 * 1024

    def tls(self) -> ssl.SSLContext | None:
        """How to speak TLS; None without a certificate. Raises OSError for files that cannot be read."""
        if self.certificate is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate, self.private_key)
        return context
