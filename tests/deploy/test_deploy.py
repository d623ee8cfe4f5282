"""The files in deploy/ and docker-compose.yml pass their validators, and every name in them exists."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import promql_parser
import pytest
import typer
import yaml

from pgqueue import QueueClient
from pgqueue.cli.app import app
from pgqueue.testing import Database
from tests.cli.command_line import CommandLine
from tests.patience import eventually

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = ROOT / "docker-compose.yml"
RULES = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"][0]["rules"]
DASHBOARD = json.loads((DEPLOY / "grafana" / "pgqueue.json").read_text())
MANIFESTS = sorted((DEPLOY / "kubernetes").iterdir())
UNITS = sorted((DEPLOY / "systemd").iterdir())
VERSIONS = ["1.30", "1.34"]

HANDLED = "def ship(message):\n    pass\n"


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in RULES)
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield target["expr"].replace("$__rate_interval", "5m")


def command_lines() -> Iterator[list[str]]:
    """Each call of ``pgqueue`` in what is deployed, and in what alerts advise."""
    for path in [COMPOSE, *MANIFESTS]:
        for document in yaml.safe_load_all(path.read_text()):
            for command in _commands(document):
                yield from _calls(command)
    for unit in UNITS:
        yield from _calls(
            shlex.split("\n".join(re.findall(r"(?<=^ExecStart=/usr/bin/env ).*", unit.read_text(), re.MULTILINE)))
        )
    for rule in RULES:
        for advice in re.findall(r"`(pgqueue .*?)`", rule["annotations"]["description"]):
            yield from _calls(shlex.split(advice.replace("{{ $labels.queue }}", "orders")))


def _commands(part: Any) -> Iterator[list[str]]:
    if isinstance(part, dict):
        if isinstance(part.get("command"), list):
            yield [*part["command"], *part.get("args", [])]
        for inner in part.values():
            yield from _commands(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _commands(inner)


def _calls(words: list[str]) -> Iterator[list[str]]:
    match words:
        case ["pgqueue", *arguments]:
            yield arguments
        case ["sh", "-c", script]:
            for call in re.findall(r"pgqueue ([^&;]+)", script):
                yield shlex.split(call)


@pytest.mark.core
@pytest.mark.parametrize("arguments", list(command_lines()), ids=" ".join)
def test_each_command_is_one_of_ours_with_options_that_it_has(arguments: list[str]) -> None:
    command: Any = typer.main.get_command(app)
    rest = list(arguments)
    while rest and rest[0] in getattr(command, "commands", ()):
        command = command.commands[rest.pop(0)]
    command.make_context(arguments[0], rest)


def test_the_metrics_are_those_of_a_worker(pgqueue: CommandLine, client: QueueClient) -> None:
    named = {name for expression in expressions() for name in re.findall(r"pgqueue_\w+", expression)}
    named |= set(re.findall(r"pgqueue_\w+", DASHBOARD["templating"]["list"][1]["query"]["query"]))
    assert len(named) > 10
    (pgqueue.directory / "shop.py").write_text(HANDLED)
    with pgqueue.start("worker", "shop:ship", "orders", "--processes", "2", "--health-port", "0") as worker:
        try:
            assert worker.stdout is not None
            port = next(worker.stdout).split()[-1].decode()
            eventually(lambda: not named - _exposed(port), f"not all of these are exposed: {sorted(named)}")
        finally:
            worker.terminate()
            worker.communicate(timeout=300)


def _exposed(port: str) -> set[str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        return set(re.findall(r"^(\w+)[{ ]", answer.read().decode(), re.MULTILINE))


@pytest.mark.parametrize("expression", list(expressions()))
def test_expressions_are_promql(expression: str) -> None:
    promql_parser.parse(expression)


def test_panels_do_not_overlap_and_have_titles_and_descriptions() -> None:
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in DASHBOARD["panels"]}
    assert len(places) == len(DASHBOARD["panels"]) == len({panel["id"] for panel in DASHBOARD["panels"]})
    assert all(panel["title"] and panel["description"] for panel in DASHBOARD["panels"])


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed: it comes with prometheus")
@pytest.mark.parametrize("arguments", [["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]])
def test_alerts_pass_promtool(arguments: list[str]) -> None:
    _passes(["promtool", *arguments], DEPLOY / "prometheus")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_units_pass_systemd() -> None:
    _passes(["systemd-analyze", "verify", "--man=no", *map(str, UNITS)], DEPLOY)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_pass_the_schemas_of_kubernetes(path: Path, version: str) -> None:
    for manifest in yaml.safe_load_all(path.read_text()):
        kubernetes_validate.validate(manifest, version, strict=True)


def test_compose_passes_its_schema() -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(COMPOSE)]
    _passes(check, ROOT)


def test_a_service_of_compose_that_is_not_restarted_waits_until_its_server_is_healthy() -> None:
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    ours = {name: service for name, service in services.items() if service["image"].startswith("pgqueue:")}
    once = {name: service for name, service in ours.items() if "restart" not in service}
    assert once.keys() == {"migrate"}
    for service in once.values():
        host = urllib.parse.urlsplit(service["environment"]["PGQUEUE_DSN"]).hostname
        assert service["depends_on"].get(host) == {"condition": "service_healthy"}
    for service in services.values():
        for name, wanted in service.get("depends_on", {}).items():
            assert wanted["condition"] != "service_healthy" or "healthcheck" in services[name]


def test_compose_pins_versions_and_runs_all_parts() -> None:
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    assert services.keys() >= {"postgres", "pgbouncer", "worker", "sweeper", "dashboard"}
    for service in services.values():
        assert re.search(r":v?\d+\.\d+", service["image"])
    for port in [port for service in services.values() for port in service.get("ports", [])]:
        assert port.startswith("127.0.0.1:")
    pinned = re.findall(r"^FROM (.*)", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert all(re.search(r":\d+\.\d+\.\d+", image) for image in pinned)


def test_the_example_of_a_handler_handles(database: Database, client: QueueClient, pgqueue: CommandLine) -> None:
    (pgqueue.directory / "handlers.py").write_text((DEPLOY / "handlers.py").read_text())
    pgqueue("send", "orders", '{"id": 7}')
    with pgqueue.start("worker", "handlers:ship", "orders") as worker:
        try:
            eventually(lambda: client.queue("orders").peek() == [])
        finally:
            worker.terminate()
            _, log = worker.communicate(timeout=300)
    assert "shipping {'id': 7}" in log.decode()


def _passes(command: list[str], directory: Path) -> None:
    ended = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
