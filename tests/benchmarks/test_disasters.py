"""Two disasters from the beginning to the verdict, the judge's rules, and the page."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from benchmarks.chaos.deeds import tell
from benchmarks.chaos.evidence import Evidence, Stored
from benchmarks.chaos.history import Operation, Outcome
from benchmarks.chaos.rules import Violation
from benchmarks.disasters import report
from benchmarks.disasters.__main__ import DISASTERS, disasters_named
from benchmarks.disasters.promoting import LaggingPromotion
from benchmarks.disasters.restoring import StaleDump
from benchmarks.disasters.round import Finding, kept, never_there, play, silence, unexplained
from benchmarks.disasters.tearing import ASKED, EVERY, CuttingProxy, Form, form

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
FINDING = Finding("wraparound", "ids are old", "vacuum (freeze);")


@pytest.mark.timeout(900)
def test_a_lagging_standby_loses_only_what_it_never_had(tmp_path: Path) -> None:
    aftermath = play(LaggingPromotion(), 1, "token", tmp_path / "books")
    assert aftermath.violations == (), "\n".join(map(str, aftermath.violations[:5]))
    assert aftermath.never_there > 0
    assert aftermath.result.faults["lagging promotion"] == 1


@pytest.mark.timeout(900)
def test_settlement_by_number_alone_loses_messages_after_a_restore(tmp_path: Path) -> None:
    assert play(StaleDump(), 1, "by-id", tmp_path / "books").lost > 0


def test_a_message_that_the_new_server_had_must_be_done_or_there() -> None:
    had = Evidence(effects={"done": ("one",)}, stored=(Stored("waiting", "waiting", "q"),))
    assert list(kept(had, had)) == []
    assert list(kept(had, Evidence(effects={"done": ("one",), "waiting": ("two",)}))) == []
    [lost] = kept(had, Evidence(effects={"done": ("one",)}))
    assert lost.text == "message waiting was on the new server, and is nowhere: LOST"


def test_an_effect_that_the_new_server_had_must_stay() -> None:
    had = Evidence(effects={"done": ("one",)})
    [gone] = kept(had, Evidence(effects={"done": ("two",)}))
    assert gone.text == "the effect of message done is gone from the new server: LOST"


def test_an_error_that_the_disaster_explains_is_no_violation() -> None:
    errors = [
        Violation("surprises", sqlstate, (_operation("send", 1, 2, sqlstate=sqlstate),))
        for sqlstate in ("25006", "42501")
    ]
    lost = Violation("conservation", "a message is LOST", (_operation("send", 1, 2, sqlstate="25006"),))
    assert list(unexplained([*errors, lost], frozenset({"25006"}))) == [errors[1], lost]


def _operation(verb: str, began: float, ended: float, outcome: Outcome = Outcome.OK, **facts: object) -> Operation:
    return Operation(f"{verb}-{began}", verb, "somebody", "q", began, ended, outcome, facts)


def test_only_messages_of_the_lost_time_were_never_there() -> None:
    deeds = tell(
        [
            _operation("send", 1, 2, ids=["before"]),
            _operation("send", 1.5, 2, Outcome.UNKNOWN, ids=["in doubt"]),
            _operation("forget", 3, 9, locked_between=[0, 0]),
            _operation("send", 4, 5, ids=["missed"]),
            _operation("send", 6, 7, ids=["arrived"]),
        ]
    )
    had = Evidence(effects={"arrived": ("one",)})
    assert never_there(deeds, had) == 1


def test_a_silent_doctor_and_a_finding_at_the_end_are_reported() -> None:
    disaster = DISASTERS["transaction ids"]
    assert list(silence(disaster.found, [FINDING], [])) == []
    [silent] = silence(disaster.found, [], [])
    assert silent.text == "the doctor was silent: wraparound has found nothing"
    [left] = silence(disaster.found, [FINDING], [FINDING])
    assert left.text == "at the end the doctor still finds wraparound: ids are old"


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (b"COMMIT", Form.ALONE),
        (b"COMMIT;", Form.ALONE),
        (b"commit; reset role", Form.ALONE),
        (b"select pgqueue.complete('q', 7, 'token'); commit", Form.LAST),
        (b"select pgqueue.complete('q', 7, 'token'); commit; begin; select pgqueue.pin('q', 8, 'token')", Form.CHAINED),
        (b"commit; begin; select 1", Form.CHAINED),
        (b"begin; select 1", None),
        (b"select 'commit'", None),
    ],
)
def test_a_commit_is_recognised_in_the_forms_that_it_is_sent_in(asked: bytes, expected: Form | None) -> None:
    assert form(b"Q\0\0\0\0" + asked + b"\0") is expected
    assert form(b"P\0\0\0\0" + asked + b"\0") is None


def test_the_proxy_cuts_at_every_place_in_turn() -> None:
    proxy, longest = CuttingProxy(), 19
    try:
        proxy.is_cutting = True
        assert [proxy.cut(Form.LAST, 160) for _ in range(EVERY)] == [None] * EVERY  # no answer is known yet
        proxy.answered(Form.LAST, longest)
        assert "COMMIT after a settlement" in proxy.left()
        cuts = [proxy.cut(Form.LAST, 160) for _ in range(EVERY * (ASKED + longest + 1))]
        assert "COMMIT after a settlement" not in proxy.left()
    finally:
        proxy.stop()
    asked = [(10 * place, 0) for place in range(ASKED)]
    assert [cut for cut in cuts if cut is not None] == asked + [(160, answered) for answered in range(longest + 1)]


@pytest.mark.core
@pytest.mark.parametrize("name", DISASTERS)
def test_the_page_has_a_row_for_every_disaster_with_its_command(name: str) -> None:
    [row] = [line for line in PAGE.read_text().splitlines() if f'`make disasters ONLY="{name}"`' in line]
    assert row.startswith(f"| {DISASTERS[name].fault} |")


def test_a_disaster_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    assert disasters_named("dump, rewind") == ["dump", "rewind"]
    with pytest.raises(argparse.ArgumentTypeError, match="no such disaster: flood; there are dump, "):
        disasters_named("flood")


def test_a_table_takes_the_place_of_the_one_that_a_page_has(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\nyesterday\n\n{report.HEADING}\n| old |\n\n## More\n")
    report.write(page, ["| new |"])
    assert "| new |\n\n## More\n" in page.read_text()
    assert "old" not in page.read_text()
    assert "yesterday" not in page.read_text()
