"""Every public name is documented: in its docstring, and on the reference pages."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
from django.core.management.base import BaseCommand

import pgqueue
import pgqueue.aio
import pgqueue.django
import pgqueue.django.tasks
import pgqueue.django.testing
import pgqueue.errors
import pgqueue.notifications
import pgqueue.spark
import pgqueue.spark.errors
from pgqueue.cli.app import app
from pgqueue.spark import consuming, pipelines, reading, report, tailing, writing

pytestmark = pytest.mark.core

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "docs" / "reference.md").read_text()
SPARK_PAGE = (ROOT / "docs" / "spark.md").read_text()
SQL_PAGE = (ROOT / "sql" / "README.md").read_text()


def exported() -> Iterator[tuple[str, object]]:
    for name in pgqueue.__all__:
        value = getattr(pgqueue, name)
        if not inspect.ismodule(value):
            yield name, value
    for name in pgqueue.notifications.__all__:
        yield name, getattr(pgqueue.notifications, name)
    for module in (pgqueue.spark, pipelines, report):
        for name in module.__all__:
            yield name, getattr(module, name)
    for name, error in [*vars(pgqueue.errors).items(), *vars(pgqueue.spark.errors).items()]:
        if inspect.isclass(error) and issubclass(error, Exception):
            yield name, error


def members() -> Iterator[tuple[str, object]]:
    for name, value in exported():
        if inspect.isclass(value) and not issubclass(value, Exception | str):
            ours = {member for each in value.__mro__ if each.__module__.startswith("pgqueue") for member in vars(each)}
            for member, attribute in inspect.getmembers(value):
                if (
                    member in ours
                    and not member.startswith("_")
                    and (callable(attribute) or isinstance(attribute, property))
                ):
                    yield f"{name}.{member}", attribute


@pytest.mark.parametrize(("name", "value"), list(exported()), ids=lambda part: part if isinstance(part, str) else "")
def test_a_public_name_has_a_docstring_and_is_in_the_reference(name: str, value: object) -> None:
    assert inspect.getdoc(value)
    assert re.search(rf"\b{name}\b", REFERENCE)


@pytest.mark.parametrize(("name", "member"), list(members()), ids=lambda part: part if isinstance(part, str) else "")
def test_a_public_member_has_a_docstring_and_is_in_the_reference(name: str, member: object) -> None:
    _, short = name.split(".")
    assert inspect.getdoc(member), f"{name} has no docstring"
    assert f"`{short}" in REFERENCE, f"{name} is not in docs/reference.md"


def test_every_option_is_in_the_reference() -> None:
    missing = []
    for name, member in members():
        if inspect.isfunction(member):
            options = [option for option in inspect.signature(member).parameters if option != "self"]
            missing += [f"{name}({option})" for option in options if not re.search(rf"\b{option}\b", REFERENCE)]
    for name, value in exported():
        if is_dataclass(value):
            shown = [field.name for field in fields(value) if not field.name.startswith("_")]
            missing += [f"{name}.{field}" for field in shown if f"`{field}`" not in REFERENCE]
    assert not missing


def test_every_sql_function_and_view_is_on_the_sql_page() -> None:
    files = [*(ROOT / "sql" / "functions" / "verbs").glob("*.sql"), *(ROOT / "sql" / "views").glob("*.sql")]
    missing = [file.stem for file in files if not re.search(rf"\b{file.stem}\b", SQL_PAGE)]
    assert not missing


def test_every_sql_function_has_a_header() -> None:
    for file in (ROOT / "sql" / "functions").rglob("*.sql"):
        assert file.read_text().startswith("-- "), f"{file.name} has no header that states its purpose"


def test_every_private_sqlstate_is_on_the_sql_page() -> None:
    private = [sqlstate for sqlstate in pgqueue.errors.BY_SQLSTATE if sqlstate.startswith("PQ")]
    assert private
    assert [sqlstate for sqlstate in private if sqlstate not in SQL_PAGE] == []


@pytest.mark.parametrize(
    "module", [pgqueue.django, pgqueue.django.tasks, pgqueue.django.testing], ids=lambda module: module.__name__
)
def test_every_public_name_for_django_is_in_the_reference(module: Any) -> None:
    section = REFERENCE.partition("\n## Django\n")[2].partition("\n## ")[0]
    for name in module.__all__:
        member = getattr(module, name)
        assert inspect.getdoc(member), f"{name} has no docstring"
        shown = f"### {module.__name__.removeprefix('pgqueue.')}.{name}" if inspect.isclass(member) else f"| `{name}("
        line = next((line for line in section.splitlines() if line.startswith(shown)), None)
        assert line is not None, f"{name} is not in docs/reference.md"
        options = () if inspect.isclass(member) else inspect.signature(member).parameters
        assert [option for option in options if not re.search(rf"\b{option}\b", line)] == []


def test_every_command_of_manage_py_and_every_option_of_it_is_in_the_reference() -> None:
    inherited = set(BaseCommand().create_parser("manage.py", "any")._option_string_actions)
    names = [path.stem for path in (ROOT / "pgqueue" / "django" / "management" / "commands").glob("[!_]*.py")]
    assert sorted(names) == ["pgqueue", "pgqueue_tasks"]
    for name in names:
        command = importlib.import_module(f"pgqueue.django.management.commands.{name}").Command()
        (line,) = re.findall(rf"^\| `manage\.py {name}[ `].*", REFERENCE, re.MULTILINE)
        options = set(command.create_parser("manage.py", name)._option_string_actions) - inherited
        assert [option for option in options if f"`{option}`" not in line] == []


def commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from commands(inner, f"{path} {name}")
    else:
        yield path, command


def test_every_command_and_every_option_of_it_is_in_the_reference() -> None:
    missing = []
    for path, command in commands(typer.main.get_command(app), "pgqueue"):
        line = next((line for line in REFERENCE.splitlines() if re.match(rf"\| `{path}[ `]", line)), None)
        if line is None:
            missing.append(path)
            continue
        options = [option.opts[0] for option in command.params if option.param_type_name == "option"]
        missing += [f"{path} {option}" for option in options if option != "--help" and f"`{option}`" not in line]
    assert not missing


@pytest.mark.parametrize(
    "option",
    sorted({*writing.OPTIONS, *writing.SINK_OPTIONS, *reading.OPTIONS, *consuming.OPTIONS, *tailing.OPTIONS}),
)
def test_every_option_of_the_format_is_on_the_page_about_spark(option: str) -> None:
    assert re.search(rf"`{option}[`=]", SPARK_PAGE)
