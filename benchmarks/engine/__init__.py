"""The engine beside a front-scanning design and the raw floor, in one interleaved run."""

from __future__ import annotations
