"""Markdown from the text of docstrings and headers, and the layout of generated Python."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]


def markdown(text: str) -> str:
    """Text of a docstring in one line: roles and double backticks become code, names of pages become links."""
    text = " ".join(text.split())
    text = re.sub(r":\w+:`~(?:\w+\.)*(\w+)`", r"`\1`", text)
    text = re.sub(r":\w+:`([^`]+)`", r"`\1`", text)
    text = re.sub(r"`+docs/([\w-]+\.md)`+", r"[\1](\1)", text)
    return text.replace("``", "`")


def code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table; cells may have bars in them."""
    heads = list(heads)
    lines = [heads, *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    written = [" ".join(["|", *(f"{cell} |" if cell else "|" for cell in line)]) for line in lines]
    return "\n".join([written[0], f"|{'---|' * len(heads)}", *written[1:]])


def formatted(text: str, path: Path) -> str:
    """As ruff formats that file, its imports sorted."""
    for command in (["check", "--fix", "--exit-zero", "--quiet", "--select", "I"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(path), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
    return text
