"""Each rule of the ledger sees what it is there for, and is silent about what may be so."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.chaos.evidence import Stuck
from tests.chaos.under_fire.stories import Story, dead, remembered, waiting

LOST, DOUBLED = ["conservation"], ["exactly once"]


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_message_that_waits_is_where_it_should_be(story: Story) -> None:
    story.send()
    assert story.broken(waiting()) == []


def test_a_message_that_is_done_is_where_it_should_be(story: Story) -> None:
    story.send()
    story.receive("a")
    assert story.broken(effects=[story.settle("a")]) == []


def test_an_acknowledged_message_that_is_nowhere_is_lost(story: Story) -> None:
    story.send()
    assert story.broken() == LOST


@pytest.mark.parametrize("outcome", ["unknown", "never"])
def test_an_unconfirmed_send_may_have_stored_the_message_or_not(story: Story, outcome: str) -> None:
    story.send(outcome=outcome)
    assert story.broken() == []
    assert story.broken(waiting()) == []


def test_a_send_that_was_refused_or_rolled_back_stores_nothing(story: Story) -> None:
    story.send(outcome="fail")
    assert story.broken() == []
    assert story.broken(waiting()) == LOST


def test_a_message_that_was_never_sent_cannot_be_there(story: Story) -> None:
    assert story.broken(waiting()) == LOST
    assert story.broken(effects=["somebody"]) == LOST


def test_a_message_without_a_queue_is_lost(story: Story) -> None:
    story.send()
    assert story.broken(waiting(queue=None)) == LOST


@pytest.mark.parametrize("verb", ["purge", "drop"])
def test_a_purge_explains_the_loss_of_messages_sent_before_it_ended(story: Story, verb: str) -> None:
    story.send()
    story.wipe(verb)
    assert story.broken() == []


def test_a_purge_does_not_explain_the_loss_of_messages_sent_after_it(story: Story) -> None:
    story.wipe()
    story.send()
    assert story.broken() == LOST


def test_a_purge_that_failed_explains_nothing(story: Story) -> None:
    story.send()
    story.wipe(outcome="fail")
    assert story.broken() == LOST


def test_a_dead_letter_is_among_the_dead(story: Story) -> None:
    story.send()
    story.receive("a")
    story.settle("a", "dead_letter", effect=False)
    assert story.broken(dead()) == []
    assert set(story.broken(waiting())) == {"conservation"}


def test_a_message_that_was_taken_at_most_once_is_gone(story: Story) -> None:
    story.send()
    story.take("m")
    assert story.broken() == []
    assert story.broken(waiting()) == DOUBLED


def test_a_take_that_broke_off_may_have_lost_its_messages(story: Story) -> None:
    story.send()
    story.take(outcome="unknown")
    assert story.broken() == []


def test_a_message_with_two_effects_is_doubled(story: Story) -> None:
    story.send()
    story.receive("a")
    assert story.broken(effects=[story.settle("a"), "another"]) == DOUBLED


def test_a_message_that_is_done_and_still_there_is_doubled(story: Story) -> None:
    story.send()
    story.receive("a")
    assert story.broken(waiting(), effects=[story.settle("a")]) == DOUBLED


def test_a_message_that_is_stored_twice_is_doubled(story: Story) -> None:
    story.send()
    assert story.broken(waiting(), dead()) == DOUBLED


def test_a_lock_that_ran_out_is_followed_by_another(story: Story) -> None:
    story.send()
    story.receive("a", delivered=10)
    story.receive("b", count=2, delivered=12)
    assert story.broken(waiting()) == []


def test_a_message_that_two_hold_at_the_same_time_is_seen(story: Story) -> None:
    story.send()
    story.receive("a", delivered=10)
    story.receive("b", count=2, delivered=11)
    assert story.broken(waiting()) == ["exclusivity"]


def test_a_lock_that_was_renewed_lasts_longer(story: Story) -> None:
    story.send()
    story.receive("a", delivered=10)
    story.settle("a", "renew", effect=False, until=14)
    story.receive("b", count=2, delivered=12)
    assert story.broken(waiting()) == ["exclusivity"]


@pytest.mark.parametrize("outcome", ["ok", "unknown", "never"])
def test_a_lock_that_may_have_been_given_up_does_not_last(story: Story, outcome: str) -> None:
    story.send()
    story.receive("a", delivered=10)
    story.settle("a", "abandon", outcome, effect=False)
    story.receive("b", count=2, delivered=11)
    assert story.broken(waiting()) == []


def test_a_receive_that_took_long_may_have_been_given_the_message_at_its_end(story: Story) -> None:
    story.send()
    story.receive("a", delivered=10)
    story.receive("b", count=2, delivered=11.5, took=0.6)
    assert story.broken(waiting()) == []


def test_times_prove_nothing_after_the_clock_was_moved(story: Story) -> None:
    story.send()
    story.receive("a", delivered=3600)
    story.step_clock(-3600)
    story.receive("b", count=2, delivered=1)
    assert story.broken(waiting()) == []


def test_tokens_still_order_deliveries_after_the_clock_was_moved(story: Story) -> None:
    story.send()
    story.receive("a", delivered=3600)
    story.step_clock(-3600)
    story.receive("b", count=2, delivered=1)
    assert story.broken(effects=[story.settle("a")]) == ["fence"]


def test_the_outcome_of_a_send_that_a_failover_may_have_forgotten_is_unknown(story: Story) -> None:
    story.forget(began=0, took=10)
    story.send(began=1)
    assert story.broken() == []
    assert story.broken(waiting()) == []


@pytest.mark.parametrize("began", [0, 20])
def test_a_send_acknowledged_before_or_after_a_failover_is_not_forgotten(story: Story, began: float) -> None:
    story.forget(began=5, took=10)
    story.send(began=began)
    assert story.broken() == LOST


def test_a_completion_that_a_failover_has_forgotten_is_done_again(story: Story) -> None:
    story.send(began=0)
    story.receive("a", delivered=1, began=1)
    story.forget(began=2, took=10)
    story.settle("a", state="completed", began=3)
    story.receive("b", count=2, delivered=20, began=20)
    assert story.broken(effects=[story.settle("b", began=21)]) == []


def test_a_completion_that_is_reported_after_a_failover_is_so(story: Story) -> None:
    story.send(began=0)
    story.receive("a", delivered=1, began=1)
    story.forget(began=2, took=10)
    story.settle("a", state="completed", began=3, took=15)
    assert "truth" in story.broken(waiting())


def test_a_message_that_a_failover_has_forgotten_needs_no_removal(story: Story) -> None:
    story.forget(began=0, took=10)
    story.send(began=1)
    story.receive("a", began=2, delivered=2)
    story.settle("a", outcome="fail", effect=False, began=3, took=15)
    assert story.broken() == []


def test_a_lock_that_a_failover_has_forgotten_holds_nothing(story: Story) -> None:
    story.send(began=0)
    story.forget(began=2, took=10)
    story.receive("a", delivered=11.9, began=11)
    story.receive("b", delivered=12.5, began=12.5)
    assert story.broken(waiting()) == []


@pytest.mark.parametrize("how", ["complete", "abandon", "defer", "renew"])
def test_a_settlement_with_a_superseded_lock_is_seen(story: Story, how: str) -> None:
    story.send()
    story.receive("a", delivered=10)
    story.receive("b", count=2, delivered=12)
    story.settle("a", how, effect=False, until=15)
    assert "fence" in story.broken(*[] if how == "complete" else [waiting()])


def test_a_settlement_that_the_next_delivery_may_have_followed_is_none(story: Story) -> None:
    story.send()
    story.receive("a", delivered=10)
    story.settle("a", "abandon", effect=False, began=2, took=2)
    story.receive("b", count=2, delivered=11, began=2.5)
    assert story.broken(waiting()) == []


def test_a_message_that_is_delivered_after_it_was_completed_is_seen(story: Story) -> None:
    story.send()
    story.receive("a", delivered=10)
    done = story.settle("a")
    story.receive("b", count=2, delivered=13)
    assert story.broken(effects=[done]) == ["fence"]


def test_a_prefetched_message_may_be_handed_out_after_another_has_completed_it(story: Story) -> None:
    story.send()
    story.receive("b", count=2, delivered=12)
    done = story.settle("b")
    story.receive("a", count=1, delivered=10)
    assert story.broken(effects=[done]) == []


def test_completed_is_done(story: Story) -> None:
    story.send()
    story.receive("a")
    story.settle("a", outcome="unknown", state="completed")
    assert story.broken(waiting()) == ["truth"]


def test_received_is_not_done(story: Story) -> None:
    story.send()
    story.receive("a")
    assert story.broken(effects=[story.settle("a", outcome="unknown", state="received")]) == ["truth"]


def test_a_completion_that_failed_left_no_effect(story: Story) -> None:
    story.send()
    story.receive("a")
    assert story.broken(effects=[story.settle("a", outcome="fail")]) == ["truth"]


def test_an_unknown_outcome_is_no_violation(story: Story) -> None:
    story.send()
    story.receive("a")
    unknown = story.settle("a", outcome="unknown")
    assert story.broken(effects=[unknown]) == []
    assert story.broken(waiting()) == []


def test_a_message_is_not_gone_when_all_possible_removals_report_failure(story: Story) -> None:
    story.send()
    story.receive("a")
    story.settle("a", outcome="unknown", state="received", effect=False)
    assert story.broken() == ["truth"]
    story.settle("a")
    assert story.broken(waiting()) != []


def test_a_state_is_not_known_while_the_transaction_is_only_prepared(story: Story) -> None:
    story.send()
    story.receive("a")
    done = story.settle("a", prepared_state="completed")
    assert story.broken(effects=[done]) == ["truth"]


def test_a_receiver_that_is_stuck_is_seen(story: Story) -> None:
    story.send()
    [violation] = story.violations(waiting(), stuck=[Stuck("q", ("m",), 20, 1)])
    assert violation.rule == "liveness"
    assert "a new session got 1" in violation.text


def test_a_contradiction_in_the_tables_is_seen(story: Story) -> None:
    assert story.broken(contradictions=["something is wrong"]) == ["invariants"]


@pytest.mark.parametrize("sqlstate", ["23505", "25001", "42702", "XX000"])
def test_an_error_that_no_fault_explains_is_seen(story: Story, sqlstate: str) -> None:
    story.fail(sqlstate)
    assert story.broken() == ["surprises"]


def test_a_step_back_of_the_sequence_explains_numbers_that_are_used_twice_and_nothing_else(story: Story) -> None:
    story.rewind()
    story.fail("23505")
    assert story.broken(contradictions=["number 7 of queue 1 is that of 2 messages"]) == []
    assert story.broken(contradictions=["message 7 of queue 1 belongs to no queue"]) == ["invariants"]


@pytest.mark.parametrize("sqlstate", ["57P01", "40001", "PQ001", "53300"])
def test_an_error_that_a_fault_explains_is_none(story: Story, sqlstate: str) -> None:
    story.fail(sqlstate)
    assert story.broken() == []


def test_a_violation_shows_all_that_is_known_of_its_message(story: Story) -> None:
    story.send()
    story.receive("a")
    story.settle("a", "abandon", effect=False)
    [violation] = story.violations()
    assert [operation.verb for operation in violation.operations] == ["send", "receive", "settle"]
    assert "LOST" in str(violation)


def test_a_session_is_done_in_the_order_of_its_sends(story: Story) -> None:
    story.send_to_session("a", "b")
    story.send_to_session("c")
    assert story.done("a", "b", "c", states=remembered("c", 3)) == []


@pytest.mark.parametrize("swapped", ["bac", "acb", "cba"])
def test_two_of_a_session_that_are_swapped_are_seen(story: Story, swapped: str) -> None:
    story.send_to_session("a", "b")
    story.send_to_session("c")
    assert set(story.done(*swapped, states=remembered(swapped[-1], 3))) == {"order"}


def test_numbers_that_go_back_decide_no_order(story: Story) -> None:
    story.send_to_session("a")
    story.rewind()
    story.send_to_session("b")
    assert story.done("b", "a", states=remembered("a", 2)) == []
    story = Story()
    story.send_to_session("a")
    story.send_to_session("b")
    story.rewind()
    assert story.done("b", "a", states=remembered("a", 2)) == ["order"]


def test_sends_at_the_same_time_have_no_order(story: Story) -> None:
    story.send_to_session("a", began=0, took=2)
    story.send_to_session("b", began=1, took=2)
    assert story.done("b", "a", states=remembered("a", 2)) == []


@pytest.mark.parametrize("how", [{"outcome": "unknown"}, {"scheduled": True}])
def test_a_message_of_no_known_place_is_in_no_order(story: Story, how: dict[str, Any]) -> None:
    story.send_to_session("a", **how)
    story.send_to_session("b")
    assert story.done("b", "a", states=remembered("a", 2)) == []


def test_a_message_whose_completion_a_failover_forgot_comes_after_its_successors(story: Story) -> None:
    story.send_to_session("m")
    story.send_to_session("b")
    story.forget(began=3, took=1)
    story.settle("t", began=3.2, took=0.1)
    assert story.done("b", "m", states=remembered("m", 2)) == []


@pytest.mark.parametrize(("last", "done"), [("b", 1), ("a", 2), ("b", 3)])
def test_a_state_that_disagrees_with_the_effects_is_seen(story: Story, last: str, done: int) -> None:
    story.send_to_session("a")
    story.send_to_session("b")
    assert story.done("a", "b", states=remembered("b", 2)) == []
    assert story.done("a", "b", states=remembered(last, done)) == ["state"]
    assert story.done("a", "b") == ["state"]


def test_a_session_may_be_released_whose_lock_is_lost(story: Story) -> None:
    story.send()
    story.receive("a")
    story.receive("b", count=2, delivered=10)
    story.settle("a", "release", effect=False)
    assert story.broken(waiting()) == []


@pytest.mark.parametrize(("answered", "broken"), [(4.5, []), (5.5, ["truth"])])
def test_an_answer_of_the_old_primary_is_forgotten_though_the_call_ended_later(
    story: Story, answered: float, broken: list[str]
) -> None:
    """The state of a delivery was asked of a frozen server, after the COMMIT had been answered."""
    story.send()
    story.forget(began=4, took=1)
    story.settle("a", began=4.2, took=2, answered=answered)
    assert story.broken(waiting()) == broken
