"""A few messages through each workload, with what is installed here; and what is made of the figures."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from psycopg.conninfo import conninfo_to_dict

from benchmarks.drawing import Bar, Line, bars, lines
from benchmarks.peers import tables, workloads
from benchmarks.peers.distance import SOCKET
from benchmarks.peers.installing import NotInstalledError, command, install
from benchmarks.peers.orders import BODY_BYTES, Order, body
from benchmarks.peers.ratios import RATIOS, Ratio, Results
from benchmarks.peers.ratios import table as ratio_table
from benchmarks.peers.stage import ActError, Prepared, Stage, at_a_distance, prepared
from benchmarks.peers.systems import BY_NAME, PGQUEUE, RAW, SYSTEMS, Home
from benchmarks.peers.workloads import WORKLOADS, Place, Sizes
from benchmarks.report import filled
from pgqueue.testing.database import drop
from pgqueue.testing.plugin import SharedServer

TINY = Sizes(
    sending=0.1,
    draining=0.1,
    first_look=20,
    most=40,
    rate=50,
    steady=0.4,
    warming=0.1,
    settling=0.1,
    idle=0.2,
    window=200,
    before=0.2,
    held=0.2,
    bucket=0.2,
)
HERE = [system for system in SYSTEMS if system.home is Home.OURS and not system.needs_pgmq]


@pytest.fixture(params=HERE, ids=lambda system: str(system.name))
def system(request: pytest.FixtureRequest, database_server: SharedServer) -> Iterator[Prepared]:
    made = prepared(database_server.dsn, request.param)
    yield made
    drop(database_server.dsn, made.database)


@pytest.fixture
def place(database_server: SharedServer) -> Place:
    return Place(database_server.dsn, TINY)


def test_a_few_messages_go_through_every_workload(system: Prepared, place: Place) -> None:
    """An adapter does not know how far the server is, so one of them is enough there."""
    for name, workload in WORKLOADS.items():
        is_left_out = name.endswith("-far") and not (system.system is PGQUEUE and _has_socket(place.server))
        if is_left_out or not system.system.takes_part(name):
            continue
        figures = workload.run(lambda: Stage(system), place)
        assert "flaw" not in figures, name
        assert figures[workload.figure] == figures[workload.figure], name
        assert figures.get("count", TINY.first_look) >= TINY.first_look, name


def _has_socket(server: str) -> bool:
    return str(conninfo_to_dict(server).get("host", "")).startswith("/")


@pytest.mark.core
def test_missing_and_doubled_effects_are_reported(database_server: SharedServer) -> None:
    made = prepared(database_server.dsn, RAW)
    try:
        with Stage(made) as stage:
            stage.connection.execute("insert into effect (number) values (0), (1), (1), (1)")
            assert workloads._effects(stage, 2) == {"flaw": "2 DOUBLED"}
            assert workloads._effects(stage, 5) == {"flaw": "3 of 5 LOST, 2 DOUBLED"}
            stage.connection.execute("delete from effect where number = 1")
            assert workloads._effects(stage, 1) == {}
    finally:
        drop(database_server.dsn, made.database)


def test_the_output_of_a_failed_act_is_in_the_error(database_server: SharedServer) -> None:
    with pytest.raises(ActError, match="No module named"):
        prepared(database_server.dsn, replace(RAW, adapter="with_nobody"))


@pytest.mark.parametrize("number", [0, 9, 10, 123_456])
def test_all_bodies_have_the_same_length(number: int) -> None:
    assert len(json.dumps(body(number))) == BODY_BYTES


def test_an_order_comes_as_it_was_given() -> None:
    order = Order("consume", "postgresql:///bench", "/dev/null", {"threads": 2}, inserts=True)
    assert Order(**json.loads(order.as_json())) == order


@pytest.mark.core
def test_every_system_has_an_adapter_and_needs_only_what_is_pinned() -> None:
    folder = Path(workloads.__file__).parent
    pinned = (folder / "requirements.txt").read_text() + (folder / "node-requirements.txt").read_text()
    for system in SYSTEMS:
        suffix = "mjs" if system.home is Home.NODE else "py"
        assert (folder / "adapters" / f"{system.adapter}.{suffix}").exists()
        assert all(name in pinned for name in system.needs), system.name


def test_ours_need_no_installation() -> None:
    for system in HERE:
        install(system)
        assert command(system)[1:3] == ["-m", "benchmarks.peers.acting"]


def test_the_time_of_processes_that_have_ended_is_counted() -> None:
    """In a process of its own: this one has started servers and more, which end when they like."""
    program = """
import os, subprocess, sys
from benchmarks.peers.stage import cpu_seconds
before = cpu_seconds(os.getpid())
subprocess.run([sys.executable, "-c", "while __import__('time').process_time() < 0.2: pass"], check=True)
print(cpu_seconds(os.getpid()) - before)
"""
    said = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert round(float(said), 2) >= 0.19  # sums of hundredths are not exact


def test_a_proxy_delays_what_passes_it_each_way(tmp_path: Path) -> None:
    """An echo at the far end: there and back takes twice the delay."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / SOCKET))
        listening.listen()
        threading.Thread(target=_echo, args=(listening,), daemon=True).start()
        with (
            at_a_distance(f"host={tmp_path} user=postgres", 20) as folder,
            socket.socket(socket.AF_UNIX) as client,
        ):
            client.connect(str(folder / SOCKET))
            began = time.monotonic()
            client.sendall(b"hello")
            assert client.recv(10) == b"hello"
            assert time.monotonic() - began >= 0.04


def _echo(listening: socket.socket) -> None:
    connection, _ = listening.accept()
    with connection:
        connection.sendall(connection.recv(10))


RESULTS: Results = {
    "W3": {
        "raw": [{"rate": 1000.0, "client_us": 5.0}, {"rate": 2000.0, "client_us": 5.0}, {"rate": 500.0}],
        "pgqueue": [{"rate": 500.0, "client_us": 40.0}, {"rate": 500.0, "client_us": 20.0}, {"flaw": "3 of 9 LOST"}],
    },
    "W4": {"pgqueue": [{"p50": 3.0, "p99": 8.0}], "graphile-worker": [{"p50": 2.0, "p99": 4.0}]},
    "W6": {"pgqueue": [{"rate": 0.9, "free": [100.0, 200.0], "held": [90.0, 180.0]}]},
}


def test_a_ratio_is_taken_within_each_turn_in_which_both_were_measured() -> None:
    assert Ratio("", "W3", "rate", "pgqueue", "raw").of(RESULTS) == [0.5, 0.25]
    assert Ratio("", "W3", "rate", "raw").of(RESULTS) == [1000, 2000, 500]
    assert Ratio("", "W3", "rate", "pgqueue", "nobody").of(RESULTS) == []
    assert Ratio("", "W1", "rate", "pgqueue", "raw").of(RESULTS) == []


def test_a_turn_of_the_one_is_not_compared_with_another_turn_of_the_other() -> None:
    turns: Results = {"W3": {"raw": [{"flaw": "it ended"}, {"rate": 10.0}], "pgqueue": [{"rate": 1.0}, {"rate": 5.0}]}}
    assert Ratio("", "W3", "rate", "pgqueue", "raw").of(turns) == [0.5]


def test_the_ratios_have_a_row_for_each_that_was_measured() -> None:
    lines = ratio_table(RESULTS, tables.shown).splitlines()[2:]
    assert lines == [
        "| W3 Worker ÷ raw | 0.38 | 0.25 to 0.50 |",
        "| W4 p50 ÷ graphile-worker | 1.50 | 1.50 |",
        "| W4 p99 ÷ graphile-worker | 2.00 | 2.00 |",
        "| W6 held ÷ not held | 0.90 | 0.90 to 0.90 |",
    ]


def test_a_table_has_medians_ranges_flaws_and_who_is_missing() -> None:
    assert tables.table("W3", RESULTS["W3"], {"oban": "needs Python 3.12"}).splitlines() == [
        "|  | messages/s | lowest to highest | client CPU, µs a message | remarks |",
        "| --- | ---: | ---: | ---: | --- |",
        "| raw psycopg | 1,000 | 500 to 2,000 | 5.00 |  |",
        "| pgqueue, Worker | 500 | 500 to 500 | 30.00 | 3 of 9 LOST |",
        "| Oban |  |  |  | needs Python 3.12 |",
    ]


def test_the_rates_of_a_held_snapshot_are_remarked() -> None:
    (row,) = tables.table("W6", RESULTS["W6"], {}).splitlines()[2:]
    assert row == "| pgqueue, Worker | 0.90 |  | messages/s, not held: 100 200; held: 90.00 180 |"


def test_each_ratio_names_systems_that_take_part() -> None:
    for ratio in RATIOS:
        for name in filter(None, [ratio.ours, ratio.theirs]):
            assert BY_NAME[name].takes_part(ratio.workload), ratio.title


def test_a_system_without_its_pinned_packages_is_reported_as_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.peers.installing.VENV", tmp_path)
    monkeypatch.setattr("benchmarks.peers.installing.PYTHON", tmp_path / "bin" / "python")
    monkeypatch.setattr("benchmarks.peers.installing._newest_python", lambda: "/bin/false")
    with pytest.raises(NotInstalledError, match="does not install"):
        install(BY_NAME["oban"])


def test_a_system_that_needs_a_newer_python_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.peers.installing.PYTHON", Path(sys.executable))
    with pytest.raises(NotInstalledError, match=r"needs Python 99\.0, and .* PEERS_PYTHON"):
        install(replace(BY_NAME["oban"], needs_python=(99, 0)))


def test_only_text_between_marks_is_replaced() -> None:
    page = "a\n<!-- begin one -->\nold\n<!-- end one -->\nb\n<!-- begin two -->\nkept\n<!-- end two -->\n"
    assert filled(page, {"one": "new", "three": "x"}) == page.replace("old", "new")


def test_pictures_are_drawn() -> None:
    drawn = [
        bars("a < b", "messages/s", [Bar("raw", 10, 8, 12), Bar("pgqueue", 5, 5, 5, is_ours=True)]),
        lines(
            "growth",
            "messages/s",
            ["1", "10"],
            "queues",
            [Line("pgqueue", [10, 9.5]), Line("other", [10, 9.4], 1, is_dashed=True)],
        ),
    ]
    for picture in drawn:
        assert ET.fromstring(picture).tag.endswith("svg")
