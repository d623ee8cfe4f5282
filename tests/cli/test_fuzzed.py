"""Every command and option with values of any kind: it does its work, or fails with one line and its own exit code."""

from __future__ import annotations

import itertools
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pgqueue import Message, QueueClient
from pgqueue.cli import choice
from pgqueue.cli.app import app
from pgqueue.cli.running import run
from pgqueue.testing import Database
from pgqueue.testing.plugin import SharedServer
from tests.cli.command_line import UNWANTED, Ended
from tests.cli.test_confirming import leaves
from tests.dashboard.scene import fill, publish, recur

TREE = typer.main.get_group(app)
COMMANDS = {**dict(leaves(TREE)), "gateway": TREE.commands["gateway"]}

#: Commands that go on until they are stopped, or take long: they get what ends them before that.
ENDING = {
    "demo": ["--flights", "x"],
    "dashboard": ["--port", "{taken}"],
    "gateway": ["--listen", "127.0.0.1:{taken}"],
    "worker": ["--dsn", "host=/nowhere"],
    "bench": ["--dsn", "host=/nowhere"],
    "spark ingest": ["--dsn", "host=/nowhere"],
    "spark drain": ["--dsn", "host=/nowhere"],
    "spark export": ["--dsn", "host=/nowhere"],
    "spark report": ["--dsn", "host=/nowhere"],
    "spark replay": ["--dsn", "host=/nowhere"],
    "spark demo": ["--dsn", "host=/nowhere"],
}

#: Options that are not given: with them a command starts a server of this user's, goes on until it is stopped, or asks
#: at the terminal from which the tests were started.
NOT_GIVEN = {"--embedded", "--watch", "--follow", "--reload", "--hash-password", "--help"}

#: Databases that cannot be read, or are not there.
DATABASES = [
    "", "x", "\udcff", "postgresql://[", "postgresql://h:99999/x", "connect_timeout=x", "connect_timeout=1e99",
    "host=/nowhere",
    "host=/nowhere connect_timeout=-1", "host=/nowhere port=x", "service=none", "sslmode=x", "a=b", "dbname='",
    "host='\n'",
    "oracle://x", "postgresql+psycopg://h:x/y", "host=/nowhere application_name=\x1b[31m",
    "options='-c x'host=/nowhere",
]  # fmt: skip

#: Options that wait: of these durations none is long.
WAITING = {"--wait", "--timeout"}
SHORT = ["0", "1ms", "-1s", "", "nan", "x", "1e3", "9" * 400 + "ms", "٣s"]

HOSTILE = [
    "", " ", "-", "--", "-1", "0", "1", "7", "x", "null", "none", "NaN", "inf", "1e400", "9" * 5000, "2147483648",
    "9223372036854775808", "-9223372036854775809", "1.5", "٣", "1s", "99999999999d", "0.0000001ms", "36500d", "36501d",
    "1GB", "9" * 30 + "GB", "2026-01-31T08:00Z", "0001-01-01T00:00Z", "9999-12-31T23:59:59-23:59", "2026-02-30", "now",
    "a=b", "a:=1", "a:=" + "[" * 9999, "a:=NaN", "=", ":=", "{", "[" * 9999, "{}", '"\\ud800"', "NaN", "1e999", "'",
    '"', "%s", "{0}", "\\", "\n", "a\tb", "é", "😀", "\udcff", "x" * 300, "x" * 70_000, "/", "..", "/nowhere/x",
    "orders/$deadletterqueue", "events/Subscriptions/large", "$Default", "0 0 * * *", "* * * * * * *", "@reboot",
    "Europe/Berlin", "../../etc/passwd", "a = 1", "a LIKE '", "$.a ? (@ > 1e999)",
    "00000000-0000-0000-0000-000000000000",
    "ACTIVE", "READY", "pgqueue", "postgres", "public", "orders", "events", "nightly", "large", "[bold]", "[/]",
    "\x1b[31m",
]  # fmt: skip

#: Values of arguments that make sense.
KNOWN = {
    "name": ["orders", "events", "nightly"], "topic": ["events"], "subscription": ["large"], "queue": ["orders"],
    "sequence_number": ["1", "2"], "sequence_numbers": ["1"], "numbers": ["1"], "body": ["1"], "role": ["pgqueue_none"],
    "handler": ["shop:handlers"], "batch": ["00000000-0000-0000-0000-000000000000"], "directory": ["somewhere"],
    "paths": ["somewhere"], "group": ["a"], "queues": ["orders"],
}  # fmt: skip

TEXTS = st.sampled_from(HOSTILE) | st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20
)


def option(parameter: Any) -> st.SearchStrategy[list[str]]:
    """An option, as it is written."""
    names = st.sampled_from([*parameter.opts, *parameter.secondary_opts])
    if parameter.is_flag:
        return names.map(lambda name: [name])
    values = {"--dsn": st.sampled_from(DATABASES), **dict.fromkeys(WAITING, st.sampled_from(SHORT))}.get(
        parameter.opts[0], TEXTS
    )
    return st.tuples(names, values).map(list)


def argument(parameter: Any) -> st.SearchStrategy[list[str]]:
    known = st.sampled_from(KNOWN[parameter.name])
    return (known | known | TEXTS).map(lambda value: [value])


def calls(path: str) -> st.SearchStrategy[list[str]]:
    """Calls of a command, with its arguments and some of its options."""
    parameters = COMMANDS[path].params
    options = [option(each) for each in parameters if each.param_type_name == "option" and not NOT_GIVEN & {*each.opts}]
    arguments = [argument(each) for each in parameters if each.param_type_name == "argument"]
    some = st.lists(st.one_of(options), max_size=3) if options else st.just([])
    required = [option(each) for each in parameters if each.param_type_name == "option" and each.required]
    return st.tuples(st.tuples(*arguments), st.tuples(*required), some).map(
        lambda parts: [*path.split(), *itertools.chain.from_iterable(itertools.chain.from_iterable(parts))]
    )


@contextmanager
def streams(directory: Path) -> Iterator[list[Path]]:
    """Standard input that is empty, and output into files."""
    paths = [directory / name for name in ("stdin", "stdout", "stderr")]
    before = sys.stdin, sys.stdout, sys.stderr
    with ExitStack() as stack:
        for path in paths:
            path.write_bytes(b"")
        sys.stdin, sys.stdout, sys.stderr = (
            stack.enter_context(path.open("r+", encoding="utf-8", errors="surrogateescape")) for path in paths
        )
        try:
            yield paths
        finally:
            sys.stdin, sys.stdout, sys.stderr = before


def ended(arguments: Sequence[str], directory: Path) -> Ended:
    """How a command ends that is run in this process."""
    with streams(directory) as paths:
        code = run(list(arguments))
        for stream in (sys.stdout, sys.stderr):
            stream.close()
    choice._beside = ""
    return Ended(code, *(path.read_text(errors="surrogateescape") for path in paths[1:]))


@pytest.fixture(scope="module")
def shop(database_server: SharedServer) -> Iterator[Database]:
    """A database with something in every state."""
    with database_server.database(database_server.template) as database:
        with QueueClient(database.dsn) as client:
            recur(client)
            publish(client)
            fill(database, client)
            client.create_queue("steps", requires_session=True)
            client.queue("steps").send(Message(1, session_id="a"))
        yield database


@pytest.fixture
def directory(shop: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, where the environment names the database."""
    for name in UNWANTED & os.environ.keys():
        monkeypatch.delenv(name)
    monkeypatch.setenv("PGQUEUE_DSN", shop.dsn)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ends_well(arguments: Sequence[str], directory: Path) -> None:
    found = ended(arguments, directory)
    assert found.code in {0, 1, 2, 130}, (arguments, found)
    assert "bug of pgqueue" not in found.err, (arguments, found.err)
    assert "Traceback" not in found.err, (arguments, found.err)
    if found.code == 0:
        return
    lines = found.err.splitlines()
    if found.code == 130:
        assert lines == [], (arguments, found.err)
    elif not found.out:
        assert len(lines) == 1, (arguments, found.err)
        assert lines[0].startswith("pgqueue: "), (arguments, found.err)


#: Calls that once ended in another way.
BROKE = [
    ["stats", "--dsn", "\udcff"],
    ["stats", "--dsn", "host=/nowhere connect_timeout=x"],
    ["dashboard", "--host", "\u00e9..x", "--accounts", "/nowhere/x"],
    ["dashboard", "--host", "\u00e9..x", "--proxy-header", "x"],
    ["gateway", "--listen", "\u00e9..x:0"],
]


@pytest.mark.parametrize("arguments", BROKE, ids=ascii)
def test_a_call_that_once_broke(arguments: list[str], directory: Path) -> None:
    ends_well(arguments, directory)


def test_the_commands_that_are_ended_exist() -> None:
    assert ENDING.keys() <= COMMANDS.keys()
    given = {name for command in COMMANDS.values() for each in command.params for name in each.opts}
    assert given >= WAITING
    assert NOT_GIVEN - {"--help"} <= given


@pytest.mark.parametrize("path", COMMANDS)
def test_a_command_ends_well_whatever_it_is_given(path: str, shop: Database, directory: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ending = [each.format(taken=taken.getsockname()[1]) for each in ENDING.get(path, [])]

        @settings(max_examples=10, phases=[Phase.reuse, Phase.generate], suppress_health_check=list(HealthCheck))
        @given(calls(path))
        def call(arguments: list[str]) -> None:
            ends_well([*arguments, *ending], directory)

        call()
    with shop.connect() as connection:
        assert connection.execute("select * from pgqueue.broken_invariants()").fetchall() == []
