"""Which messages of a queue are meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any


@dataclass(frozen=True)
class Selection:
    """Messages that match each of these; None does not restrict them.

    ``older_than`` is the time since they were sent. Each of ``application_properties`` is to be equal; a message may
    have others.
    """

    state: str | None = None
    subject: str | None = None
    older_than: timedelta | None = None
    application_properties: Mapping[str, Any] | None = None
    session_id: str | None = None
