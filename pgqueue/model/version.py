"""The version of this package, for what lies below :mod:`pgqueue` itself."""

from __future__ import annotations

VERSION = "0.1.0"
