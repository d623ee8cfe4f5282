"""Writes the parts of pages that come from the code: ``make generate``.

A page names what belongs between two comments, and has the rest by hand::

    <!-- generated: class Queue -->
    <!-- end -->

The first word is one of :data:`WRITERS`, the others are its arguments. Python is read by griffe, from signatures and
docstrings; SQL from the headers of its files; commands from their help.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from docs.generate import azure, commands, decisions, django, lists, python, report, sql
from docs.generate.text import ROOT

PAGES = [
    ROOT / name
    for name in (
        "docs/reference.md",
        "docs/limits.md",
        "docs/service-bus.md",
        "docs/spark-report.md",
        "docs/adr/README.md",
        "sql/README.md",
    )
]

#: Parts that a page may ask for, each a function of the words that follow.
WRITERS: dict[str, Callable[..., str]] = {
    "class": python.class_section,
    "classes": python.class_sections,
    "functions": python.functions,
    "settings": python.settings,
    "errors": python.errors,
    "commands": commands.commands,
    "management_commands": django.management_commands,
    "azure_tests": azure.azure_tests,
    "decisions": decisions.decisions,
    "report_figures": report.report_figures,
    "report_columns": report.report_columns,
    "message_texts": lists.message_texts,
    "verbs": sql.verbs,
    "views": sql.views,
    "calls": sql.calls,
    "callers": sql.callers,
    "library": sql.library,
}

BLOCK = re.compile(r"(?P<begin><!-- generated: (?P<what>[^>]+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)


def filled(page: str) -> str:
    """The page with its generated parts as the code is now."""

    def write(block: re.Match[str]) -> str:
        writer, *words = block["what"].split()
        return f"{block['begin']}\n{WRITERS[writer](*words)}\n\n{block['end']}"

    return BLOCK.sub(write, page)
