"""The command line: ``pgqueue``. Exit codes: 0 done, 1 failed, 2 wrong use; an error is one line with its remedy."""

from __future__ import annotations

from pgqueue.cli.running import main as main
