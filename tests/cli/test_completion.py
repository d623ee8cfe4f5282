"""The shells complete commands, options and names of the database."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pgqueue import QueueClient
from pgqueue.testing import Database
from tests.cli.command_line import CommandLine
from tests.cli.terminal import Terminal
from tests.patience import eventually

PROGRAM = Path(sys.executable).with_name("pgqueue")

ZSH = """
PS1='ready> '
autoload -Uz compinit && compinit -u -d zcompdump
source ./script
print-buffer() { print -r -- $BUFFER > buffer.new && mv buffer.new buffer }
zle -N print-buffer
bindkey '^X' print-buffer
"""

Shell = Callable[[str], list[str]]


@pytest.fixture(params=["bash", "fish"])
def complete(request: pytest.FixtureRequest, pgqueue: CommandLine, client: QueueClient) -> Shell:
    """The completions that a shell offers for an unfinished command line."""
    shell = _installed(request.param)
    environment = _environment(pgqueue)
    _write_script(shell, pgqueue)
    ask = {"bash": _ask_bash, "fish": _ask_fish}[shell]

    def offered(line: str) -> list[str]:
        answer = subprocess.run(
            [shell, "-c", f"source ./script; {ask(line)}"],
            cwd=pgqueue.directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
        assert answer.stderr == ""
        return [each.split("\t")[0] for each in answer.stdout.splitlines()]

    return offered


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("pgqueue s", ["send", "stats", "sessions", "schedule", "subscription", "sweep", "spark"]),
        ("pgqueue --v", ["--version"]),
        ("pgqueue queue p", ["pause", "purge"]),
        ("pgqueue stats --w", ["--watch"]),
        ("pgqueue worker shop:ship --log-format ", ["text", "json"]),
        ("pgqueue send o", ["orders"]),
        ("pgqueue queue update orders --forward-to p", ["parcels"]),
        ("pgqueue worker shop:ship orders p", ["parcels"]),
        ("pgqueue subscription list e", ["events"]),
        ("pgqueue schedule show n", ["nightly"]),
    ],
)
def test_a_shell_completes_commands_options_and_names(
    complete: Shell, client: QueueClient, pgqueue: CommandLine, line: str, offered: list[str]
) -> None:
    client.create_queue("parcels")
    client.create_topic("events")
    pgqueue("schedule", "create", "nightly", "orders", "1", "--every", "1d")
    assert sorted(complete(line)) == sorted(offered)


def test_zsh_completes_what_is_typed(pgqueue: CommandLine, client: QueueClient) -> None:
    zsh = _installed("zsh")
    _write_script(zsh, pgqueue)
    environment = {**_environment(pgqueue), "ZDOTDIR": str(pgqueue.directory)}
    (pgqueue.directory / ".zshrc").write_text(ZSH)
    with Terminal([zsh, "-d", "-i"], directory=pgqueue.directory, environment=environment) as terminal:
        terminal.wait_for("ready> ")
        terminal.type("pgqueue dead\tlist ord\t\x18")
        buffer = pgqueue.directory / "buffer"
        eventually(buffer.exists, "zsh did not complete")
        assert buffer.read_text().split() == ["pgqueue", "dead-letters", "list", "orders"]


def test_names_are_those_of_the_database_that_the_command_line_names(
    pgqueue: CommandLine, unconfigured: CommandLine, client: QueueClient, database: Database
) -> None:
    for line in (f"pgqueue --dsn {shlex.quote(database.dsn)} peek o", f"pgqueue peek --dsn '{database.dsn}' o"):
        assert _offered(unconfigured, line) == ["orders"]
    assert _offered(unconfigured, "pgqueue peek o") == []
    assert _offered(pgqueue, "pgqueue --embedded peek o") == []


def test_a_database_that_does_not_answer_offers_nothing(pgqueue: CommandLine, empty_database: Database) -> None:
    for dsn in ("host=/nowhere", "no dsn at all", empty_database.dsn):
        assert _offered(pgqueue, f"pgqueue --dsn {shlex.quote(dsn)} peek o") == []


def test_a_shell_without_completion_is_refused(pgqueue: CommandLine) -> None:
    ended = pgqueue("--show-completion", _PGQUEUE_COMPLETE="complete_csh")
    assert (ended.code, ended.out) == (1, "")
    assert "csh not supported" in ended.err


def test_completion_is_installed_by_an_option(pgqueue: CommandLine) -> None:
    shown = {option for option in ("--install-completion", "--show-completion") if option in pgqueue("--help").out}
    assert shown == {"--install-completion", "--show-completion"}


def _offered(pgqueue: CommandLine, line: str) -> list[str]:
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(shlex.split(line)) - 1)}
    ended = pgqueue(_PGQUEUE_COMPLETE="complete_bash", **words)
    assert (ended.code, ended.err) == (0, "")
    return ended.out.split()


def _installed(shell: str) -> str:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    return shell


def _environment(pgqueue: CommandLine) -> Mapping[str, str]:
    return {**pgqueue.environment, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}", "HOME": str(pgqueue.directory)}


def _write_script(shell: str, pgqueue: CommandLine) -> None:
    script = pgqueue(_PGQUEUE_COMPLETE=f"source_{shell}")
    assert (script.code, script.err) == (0, "")
    (pgqueue.directory / "script").write_text(script.out)


def _ask_bash(line: str) -> str:
    words = shlex.split(line) + [""] * line.endswith(" ")
    asked = f"COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; _pgqueue_completion pgqueue"
    return f"{asked}; printf '%s\\n' ${{COMPREPLY[@]}}"


def _ask_fish(line: str) -> str:
    return f"complete -C {shlex.quote(line)}"
