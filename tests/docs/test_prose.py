"""``.ci/prose.py`` finds the English that this project does not write."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def prose(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / ".ci"))
    return importlib.import_module("prose")


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("turned", "Who waits for a message polls."),
        ("turned", "Whatever cannot be read stays."),
        ("speech", "The receiver is told of each message."),
        ("speech", "Says how many messages there are."),
        ("private", "The message rests for 1.0 s."),
        ("private", "Nothing was locked: somebody else holds it."),
    ],
)
def test_each_rule_finds_its_example(prose: Any, rule: str, sentence: str) -> None:
    found = [broken for _, part in prose.sentences(sentence) for broken in prose.broken(part)]

    assert [broken.split()[0] for broken in found] == [rule]


@pytest.mark.parametrize(
    "sentence",
    [
        "Receivers poll, and the one that waits longest comes first.",
        "What happens to a message after its lock has expired?",
        "Unreadable messages stay until they expire.",
        'The option is for users who ask "what is told to whom".',
        "Returns what ``says`` returned.",
        "What if the server stops?",
    ],
)
def test_usual_english_passes(prose: Any, sentence: str) -> None:
    assert not [broken for _, part in prose.sentences(sentence) for broken in prose.broken(part)]


@pytest.mark.parametrize(
    ("suffix", "text", "line"),
    [
        (".py", '"""One word.\n\nWhat it returns is new.\n"""\n', 3),
        (".py", "# A comment of two lines. It\n# tells nothing.\n", 1),
        (".py", 'log.info(f"{queue} is said to be full")\n', 1),
        (".py", "def test_who_waits_is_notified(): ...\n", 1),
        (".sql", "select 1;\n-- What follows is new.\n", 2),
        (".sql", "raise exception\n  using hint = 'Say which queue.';\n", 2),
        (".md", "# Queues\n\nText.\n\n- Nobody waits.\n", 5),
    ],
)
def test_places_are_found_in_each_kind_of_file(prose: Any, tmp_path: Path, suffix: str, text: str, line: int) -> None:
    path = tmp_path / f"example{suffix}"
    path.write_text(text)

    assert {found.line for found in prose.findings(path)} == {line}
