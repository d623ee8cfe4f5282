"""How a command may end, other than done."""

from __future__ import annotations

FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130
