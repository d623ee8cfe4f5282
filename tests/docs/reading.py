"""Follows a page as its reader would: writes its files, runs its commands, and compares what they print.

A block with a file's name as its title is that file. A ``console`` block holds commands, after ``$``, and what they
print; ``…`` is anything. Its title may state that it runs in another terminal, or that its outcome takes a moment.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.patience import PATIENCE, eventually

BLOCK = re.compile(
    r"^```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE
)
OTHER_TERMINAL = "second terminal"
LATER = "a moment later"


class Reader:
    """A reader who works through a page in a folder."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        root = str(Path(__file__).parents[2])
        self.environment = os.environ | {"PATH": programs, "PYTHONPATH": root, "COLUMNS": "200"} | environment
        self.log = folder / "second-terminal.log"
        self.running: subprocess.Popen[bytes] | None = None

    def read(self, page: str) -> None:
        try:
            for block in BLOCK.finditer(page):
                if block["language"] == "console":
                    self.type(block["title"], block["text"])
                elif block["title"]:
                    (self.folder / block["title"]).write_text(block["text"])
        finally:
            self.stop()

    def type(self, title: str | None, block: str) -> None:
        for command, expected in commands(block):
            if title == OTHER_TERMINAL:
                self.start(command, expected)
            elif title == LATER:
                eventually(partial(self.prints, command, expected), f"$ {command} does not print\n{expected}")
            else:
                printed = self.run(command, fails="psycopg.errors" in expected)
                assert matches(expected, printed), f"$ {command}\n{printed}\nis not\n{expected}"

    def prints(self, command: str, expected: str) -> bool:
        return matches(expected, self.run(command))

    def run(self, command: str, *, fails: bool = False) -> str:
        ended = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert (ended.returncode != 0) == fails, f"$ {command}\n{ended.stdout}"
        return ended.stdout

    def start(self, command: str, expected: str) -> None:
        self.stop()
        with self.log.open("wb") as log:
            self.running = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        eventually(lambda: matches(expected + "…", self.log.read_text()), f"{command}: not {expected}")

    def stop(self) -> None:
        if self.running is not None:
            self.running.terminate()
            self.running.wait(PATIENCE)


def commands(block: str) -> Iterator[tuple[str, str]]:
    """The commands of a block, each with what it prints."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        yield command, expected


def matches(expected: str, printed: str) -> bool:
    """Whether a command printed the text of the page; the width of a table may differ."""
    pattern = ".*".join(re.escape(plain(part)) for part in expected.split("…"))
    return re.fullmatch(pattern.replace(r"\ ", r"\ *"), plain(printed), re.DOTALL) is not None


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub("─+", "─", text)).strip()
