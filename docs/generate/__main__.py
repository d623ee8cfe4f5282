"""``python -m docs.generate``: every page with generated parts, written anew."""

from __future__ import annotations

from docs.generate import PAGES, filled

for page in PAGES:
    page.write_text(filled(page.read_text()))
