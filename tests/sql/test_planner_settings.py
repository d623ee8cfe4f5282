"""The settings of the planner under which functions run: a helper sets those that not all of its callers have set."""

from __future__ import annotations

import re
from functools import cache

import pytest

from docs.generate import sql

READS = re.compile(
    r"\b(?:from|join|update) pgqueue\.(?:message|scheduled_message|dead_letter|failed_message|watch|sent_message_id)\b"
)
SETTING = re.compile(r"^set (enable_\w+|plan_cache_mode) = (\w+)$", re.MULTILINE)

#: They read whole tables.
THOROUGH = {
    "_find_broken_batches",
    "_find_broken_messages",
    "_find_broken_progress",
    "_find_broken_sessions",
    "_send_staged",
    "queue_counts",
}
#: Plain queries are inlined, and planned as a part of the query that calls them.
INLINED = {"_deferred_messages", "_highest_number_in_use", "_lane_messages", "_messages_of", "_scheduled_messages_of"}
#: They read rows by their places.
BY_PLACE = {"_release_groups", "abandon_batch", "resolve"}

READERS = {name for name, file in sql.functions().items() if READS.search(file.body)} - THOROUGH - INLINED - BY_PLACE

HOT = [
    "receive",
    "receive_and_delete",
    "_complete_any",
    "complete_batch",
    "renew_lock_batch",
    "pin_batch",
    "_lock_proven",
    "_find_by_token",
    "_redeliver",
    "_advance_cursors",
    "_record_message_ids",
    "_check_queue_length",
    "_lock_dead_letters",
    "receive_dead_letters",
    "receive_deferred",
    "_expire_due",
]


@cache
def settings() -> dict[str, dict[str, str]]:
    """For each function what it sets, or else all that call it have set."""
    entries = {name for name in sql.functions() if not name.startswith("_")} | sql.called_from_outside()
    callers = {name: [each for each in sql.functions() if name in sql.called(each)] for name in sql.functions()}
    known = {name: dict(SETTING.findall(file.body)) for name, file in sql.functions().items()}
    changed = True
    while changed:
        changed = False
        for name in sql.functions().keys() - entries:
            above = [set(known[each].items()) for each in callers[name] if each != name]
            common = dict(set.intersection(*above)) if above else {}
            if common.keys() - known[name].keys():
                known[name] = common | known[name]
                changed = True
    return known


@pytest.mark.parametrize("function", sorted(READERS))
def test_a_function_that_looks_messages_up_scans_no_table(function: str) -> None:
    assert settings()[function].get("enable_seqscan") == "off"


@pytest.mark.parametrize("function", HOT)
def test_a_verb_that_takes_arrays_is_not_planned_at_every_call(function: str) -> None:
    assert settings()[function].get("plan_cache_mode") == "force_generic_plan"
