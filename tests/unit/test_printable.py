"""Text from others is shown, and does nothing: neither to a terminal nor to a page."""

from __future__ import annotations

import json
import logging

import pytest

from pgqueue.cli import output
from pgqueue.cli.logs import JsonFormatter, TextFormatter
from pgqueue.model.printable import printable, printable_json

HOSTILE = {
    "an escape code": "\x1b[2J\x1b]0;title\x07",
    "an escape code of eight bits": "\x9b2J",
    "backspaces": "paid\b\b\b\bfree",
    "a carriage return": "all is well\rnothing",
    "right to left": "invoice\u202efdp.exe",
    "isolated": "\u2066hidden\u2069",
    "nothing to be seen": "a\u200bb\ufeff",
    "a tag beyond the plane": "\U000e0041",
    "half a character": "\ud800",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_unprintable_text_is_shown_and_does_nothing(text: str) -> None:
    assert printable(text).isprintable()
    assert printable_json(json.dumps(text, ensure_ascii=False)).isprintable()
    assert json.loads(printable_json(json.dumps(text, ensure_ascii=False))) == text


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_commands_print_nothing_else(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    output.say(text)
    output.hint(text)
    output.document({text: text})
    output.show(output.table(["name", text], [[text, 1]]))
    output.show(output.record([("name", text), (text, "value")]))
    printed = capsys.readouterr()
    for line in (printed.out + printed.err).split("\n"):
        assert line.isprintable()


@pytest.mark.parametrize("text", [*HOSTILE.values(), "a\n2031-04-01 INFO all is well"], ids=[*HOSTILE, "a line"])
@pytest.mark.parametrize("formatter", [TextFormatter("%(levelname)s %(message)s"), JsonFormatter()])
def test_a_record_of_the_log_is_its_first_line_and_what_is_indented(formatter: logging.Formatter, text: str) -> None:
    try:
        raise ValueError(text)
    except ValueError as error:
        failure = (type(error), error, error.__traceback__)
    record = logging.LogRecord("pgqueue", logging.WARNING, __file__, 1, "failed: %s", (text,), failure)
    first, *others = formatter.format(record).split("\n")
    assert all(line.isprintable() for line in (first, *others))
    assert all(line.startswith("    ") for line in others)


def test_printable_text_stays_as_it_is() -> None:
    for text in ("Zürich", "🦀", "日本語", "<b>&amp;</b>", "two\nlines"):
        assert printable(text) == text
        assert printable_json(text) == text
