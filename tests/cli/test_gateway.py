"""``pgqueue gateway``: its keys, and its refusals before it serves. tests/gateway tests the rest."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine


def test_a_key_is_made_listed_and_deleted(pgqueue: CommandLine) -> None:
    assert "no key yet" in pgqueue("gateway", "keys", "list").err
    made = pgqueue("gateway", "keys", "create", "shop", "--json").document
    expected = "Endpoint=sb://127.0.0.1:5672;SharedAccessKeyName=shop;SharedAccessKey="
    assert made["connection_string"].startswith(expected)
    assert made["connection_string"].endswith(";UseDevelopmentEmulator=true")
    assert made["connection_string"] not in pgqueue("gateway", "keys", "list").out
    assert [key["name"] for key in pgqueue("gateway", "keys", "list", "--json").document] == ["shop"]
    assert "one that no other key has" in pgqueue("gateway", "keys", "create", "shop").only_error
    assert "role must be" in pgqueue("gateway", "keys", "create", "other", "--role", "nobody").only_error
    assert pgqueue("gateway", "keys", "delete", "shop", "--yes").code == 0
    assert "'shop'" in pgqueue("gateway", "keys", "delete", "shop", "--yes").only_error


def test_with_tls_a_connection_string_names_no_emulator(pgqueue: CommandLine) -> None:
    out = pgqueue("gateway", "keys", "create", "shop", "--endpoint", "queues.example.com", "--tls").out
    assert out.startswith("Endpoint=sb://queues.example.com;SharedAccessKeyName=shop;SharedAccessKey=")
    assert "Emulator" not in out


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["--listen", "0.0.0.0:0"], 2, "--plain-text"),
        (["--listen", "127.0.0.1:0", "--administration", "0.0.0.0:0"], 2, "--administration"),
        (["--listen", "127.0.0.1:0", "--websocket", "0.0.0.0:0", "--json-bodies"], 2, "--websocket"),
        (["--listen", "5672"], 2, "127.0.0.1:5672"),
        (["--listen", "127.0.0.1:0", "--max-links", "0"], 2, "--max-links"),
        (["--listen", "127.0.0.1:99999"], 2, "an address and a port"),
        (["--listen", "127.0.0.1:0", "--private-key", "key.pem"], 2, "--certificate"),
        (["--listen", "127.0.0.1:0", "--certificate", "nosuch.pem"], 1, "certificate"),
    ],
)
def test_invalid_options_are_refused(pgqueue: CommandLine, arguments: list[str], code: int, reason: str) -> None:
    ended = pgqueue("gateway", *arguments)
    assert ended.code == code
    assert reason in ended.only_error


def test_a_port_that_is_taken(pgqueue: CommandLine, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = pgqueue("gateway", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert (ended.code, "cannot listen" in ended.only_error) == (1, True)
    assert list(tmp_path.iterdir()) == []
