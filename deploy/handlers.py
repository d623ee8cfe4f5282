"""An example of a handler, which docker-compose.yml runs: replace it by your own."""

from __future__ import annotations

import logging

from pgqueue import ReceivedMessage

logger = logging.getLogger("shop")


def ship(message: ReceivedMessage) -> None:
    """Handle one message; it is completed when this returns, and delivered again when it raises."""
    logger.info("shipping %s", message.body)
