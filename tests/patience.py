"""How tests wait for what another thread, another process or the server does."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Seconds. A busy machine takes ten times as long as an idle one; what takes this long does not happen any more.
PATIENCE = 300


def eventually(condition: Callable[[], object], what: str = "it did not come to pass") -> None:
    """Wait until a condition holds; fail if it does not hold in the end."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)
