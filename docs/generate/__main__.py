"""``python -m docs.generate``: every page with generated parts, and the help of all commands, written anew."""

from __future__ import annotations

from docs.generate import PAGES, filled
from docs.generate.commands import overview
from pgqueue.cli.running import HELP

HELP.write_text(overview(), encoding="utf-8")
for page in PAGES:
    page.write_text(filled(page.read_text()))
