"""``python -m pgqueue`` is ``pgqueue``."""

from __future__ import annotations

from pgqueue.cli import main

if __name__ == "__main__":
    main()
