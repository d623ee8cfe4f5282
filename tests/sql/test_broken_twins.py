"""Take out any one of the conditions on which the promises rest, and a test fails.

A twin is a function of the engine with one piece of its text taken out or replaced; ``twins/`` has them by theme. The
text must be there, so this table cannot rot; and of the conditions it is about, it must name all there are.

They have a server of their own: turns wait for transactions that are open anywhere on a server, and when one of another
test ends just then, what was passed is looked through once more, which covers up what a twin has lost.
"""

from __future__ import annotations

import re

import pytest

from tests.quiet import QuietServer
from tests.sql.twins import (
    batches,
    consumers,
    cursors,
    dead_letters,
    deferral,
    due_times,
    duplicates,
    failures,
    flow,
    forwarding,
    fronts,
    groups,
    lifetimes,
    locks,
    misuse,
    results,
    rights,
    room_and_history,
    schedules,
    search_path,
    selecting,
    sessions,
    settling,
    staging,
    sweeping,
    tokens,
    topics,
    unique_keys,
    waits,
    waking,
)
from tests.sql.twins.twin import FUNCTIONS, Twin, source

THEMES = [
    batches,
    consumers,
    cursors,
    dead_letters,
    deferral,
    due_times,
    duplicates,
    failures,
    flow,
    forwarding,
    fronts,
    groups,
    lifetimes,
    locks,
    misuse,
    results,
    rights,
    room_and_history,
    schedules,
    search_path,
    selecting,
    sessions,
    settling,
    staging,
    sweeping,
    tokens,
    topics,
    unique_keys,
    waits,
    waking,
]

WAITS = sessions.WAITS + selecting.WAITS + unique_keys.WAITS + groups.WAITS
TOKENS = sessions.TOKENS + groups.TOKENS
ALL = [*(twin for theme in THEMES for twin in theme.TWINS), *TOKENS, *WAITS]

TOKEN_CHECK = re.compile(r"lock_token = (?:token|lock_tokens\[|(?!dead_letter\.)[a-z_]+\.lock_token)")
SKIP_LOCKED = re.compile(r"skip locked")
FENCE = re.compile(r"_(?:find|check)_consumer\((?:consumer|known), epoch\)|_find_open_claim\(known, claim\)")


@pytest.mark.parametrize("twin", ALL, ids=str)
def test_a_broken_twin_is_caught(quiet_server: QuietServer, twin: Twin) -> None:
    assert twin.text in twin.original, f"{twin.function} no longer contains the twin's text: change that, too"
    assert twin.original.count(twin.text) == 1, (
        f"{twin.function} contains the twin's text more than once: quote more of it"
    )
    if not twin.is_caught_by_a_test:
        with quiet_server.database() as sound:
            twin.caught_by(sound)
    with quiet_server.database() as broken:
        assert twin.is_caught(broken), "its test passes with it. Does the test still come by this piece of the code?"


@pytest.mark.parametrize(
    ("condition", "twins"),
    [
        (TOKEN_CHECK, tokens.TWINS + TOKENS),
        (SKIP_LOCKED, waits.TWINS + WAITS),
        (FENCE, consumers.FENCES),
    ],
    ids=["lock tokens", "skip locked", "epochs and claims"],
)
def test_no_condition_is_without_its_twin(condition: re.Pattern[str], twins: list[Twin]) -> None:
    known = sorted(twin.function for twin in twins)
    functions = {path.stem for path in FUNCTIONS.rglob("*.sql")} - {"_claim_plan"}  # which locks nothing
    found = [function for function in functions for _ in condition.findall(without_comments(function))]
    assert sorted(found) == known


def without_comments(function: str) -> str:
    return re.sub(r"--.*", "", source(function))
