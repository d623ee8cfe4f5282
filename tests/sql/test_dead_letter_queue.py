"""'<queue>/$deadletterqueue': dead letters are received under lock and settled, and never expire or die again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from tests.sql.stage import (
    DEAD,
    INVALID_ARGUMENT,
    LOCK_DURATION,
    LOCK_LOST,
    QUEUE_DISABLED,
    SECOND,
    SERIALIZATION_FAILURE,
    UNKNOWN_QUEUE,
    Received,
    Session,
    Stage,
    refused,
)

LETTERS = "select sequence_number from pgqueue.dead_letters"


def test_dead_letters_are_received_under_lock_in_the_order_they_were_sent(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        numbers = buried(ann, 5)
        assert numbers_of(receive(ann, 3)) == numbers[:3]
        assert numbers_of(receive(bob, 9)) == numbers[3:]
        assert receive(bob, 9) == []
        assert ann.receive(9) == []


def test_a_dead_letter_is_received_with_its_reason_and_description(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        (number,) = buried(ann, 1)
        said = (
            "select sequence_number, body, dead_letter_reason, dead_letter_error_description, locked_by,"
            " delivery_count, locked_until - pgqueue.clock()"
            " from pgqueue.receive_dead_letters('q', 9, '1 second', 'worker 7')"
        )
        assert ann.rows(said) == [(number, 0, "r", "d", "worker 7", 2, SECOND)]
        stage.passes(SECOND)
        assert ann.value(f"select locked_by from pgqueue.receive('{DEAD}')").startswith("ann:")


def test_a_locked_dead_letter_is_shown_with_its_holder(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        buried(ann, 1)
        receive(ann, locked_by="worker 7")
        assert ann.rows("select locked_by, locked_until - pgqueue.clock() from pgqueue.dead_letters") == [
            ("worker 7", LOCK_DURATION)
        ]


def test_two_receivers_never_get_the_same_dead_letter(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        numbers = buried(ann, 2)
        ann.begin()
        assert numbers_of(receive(ann)) == numbers[:1]
        assert numbers_of(receive(bob, 9)) == numbers[1:]
        ann.commit()


def test_a_completed_dead_letter_is_gone(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        _, second = buried(ann, 2)
        ann.complete(receive(ann)[0], queue=DEAD)
        assert ann.values(LETTERS) == [second]
        messages = receive(ann)
        assert ann.settle_batch("complete_batch", messages, queue=DEAD) == [(second, None)]
        assert ann.values(LETTERS) == []


def test_an_abort_leaves_a_dead_letter_locked_by_the_same_token(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        buried(ann, 1)
        (received,) = receive(ann)
        ann.begin()
        ann.settle("pin", received, queue=DEAD)
        transaction = ann.complete(received, queue=DEAD)
        ann.rollback()
        assert receive(bob) == []
        assert resolved(ann, received, transaction) == "aborted"
        ann.begin()
        transaction = ann.complete(received, queue=DEAD)
        assert resolved(bob, received, transaction) == "in progress"
        ann.commit()
        assert resolved(bob, received, transaction) == "committed"
        assert ann.values(LETTERS) == []


def test_a_completion_undone_to_a_savepoint_counts_as_aborted(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        buried(ann, 1)
        (received,) = receive(ann)
        ann.begin()
        transaction = ann.value("select pg_current_xact_id()")
        ann.rows("savepoint s")
        ann.complete(received, queue=DEAD)
        ann.rows("rollback to s")
        assert resolved(ann, received, transaction) == "aborted"
        ann.commit()
        assert resolved(ann, received, transaction) == "aborted"


def test_a_settlement_without_a_known_transaction_is_resolved_by_the_dead_letter(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        buried(ann, 1)
        (received,) = receive(ann)
        ann.begin()
        ann.rows("savepoint s")
        undone = ann.complete(received, queue=DEAD)
        ann.rows("rollback to s")
        assert resolved(bob, received, undone) == "aborted"
        ann.complete(received, queue=DEAD)
        assert resolved(bob, received, None) == "in progress"
        ann.rollback()
        assert resolved(bob, received, None) == "aborted"
        ann.abandon(received, queue=DEAD)
        assert resolved(bob, received, None) == "gone"


def test_a_settlement_is_resolved_after_another_receiver_has_received_the_dead_letter(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        buried(ann, 1)
        (received,) = receive(ann)
        ann.begin()
        ann.abandon(received, queue=DEAD)
        transaction = ann.value("select pg_current_xact_id()")
        ann.commit()
        receive(bob)
        assert resolved(ann, received, transaction) == "committed"


def test_an_abandoned_dead_letter_can_be_received_again_and_the_delivery_counts(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        (number,) = buried(ann, 1)
        (received,) = receive(ann)
        ann.abandon(received, queue=DEAD, properties=Jsonb({"looked at": True}))
        assert ann.rows("select locked_until, locked_by, application_properties from pgqueue.dead_letters") == [
            (None, None, {"looked at": True})
        ]
        with refused(LOCK_LOST):
            ann.complete(received, queue=DEAD)
        (again,) = receive(ann)
        assert (again.sequence_number, again.delivery_count) == (number, received.delivery_count + 1)


def test_a_dead_letter_abandoned_with_a_delay_can_be_received_after_that(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        (number,) = buried(ann, 1)
        (received,) = receive(ann)
        ann.abandon(received, queue=DEAD, delay=2 * SECOND)
        stage.passes(SECOND)
        assert receive(ann) == []
        with refused(LOCK_LOST):
            ann.complete(received, queue=DEAD)
        stage.passes(SECOND)
        assert numbers_of(receive(ann)) == [number]


def test_a_released_dead_letter_is_given_back_uncounted(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        buried(ann, 1)
        for _ in range(2):
            messages = receive(ann)
            assert [message.delivery_count for message in messages] == [2]
            ann.settle_batch("release_batch", messages, queue=DEAD)


def test_the_lock_of_a_dead_letter_is_renewed(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        buried(ann, 1)
        (received,) = receive(ann)
        stage.passes(LOCK_DURATION - SECOND)
        renewed = ann.call("clock") + LOCK_DURATION
        assert ann.settle("renew_lock", received, queue=DEAD) == renewed
        stage.passes(LOCK_DURATION - SECOND)
        assert receive(bob) == []
        ann.complete(received, queue=DEAD)


def test_a_renewal_does_not_wait_for_the_completion_that_is_under_way(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        buried(ann, 1)
        (received,) = receive(ann)
        ann.begin()
        ann.complete(received, queue=DEAD)
        stage.passes(SECOND)
        assert bob.settle("renew_lock", received, queue=DEAD) == received.locked_until
        ann.commit()
        with refused(LOCK_LOST):
            bob.settle("renew_lock", received, queue=DEAD)


def test_a_pinned_dead_letter_cannot_be_taken_over(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        buried(ann, 2)
        first, second = receive(ann, 2)
        ann.begin()
        ann.settle("pin", first, queue=DEAD)
        assert ann.settle_batch("pin_batch", [second], queue=DEAD) == [(second.sequence_number, None)]
        stage.passes(2 * LOCK_DURATION)
        assert receive(bob, 9) == []
        ann.settle_batch("complete_batch", [first, second], queue=DEAD, atomic=True)
        ann.commit()


def test_a_dead_letter_being_completed_is_skipped_when_its_lock_expires(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        numbers = buried(ann, 1)
        (received,) = receive(ann)
        ann.begin()
        ann.complete(received, queue=DEAD)
        stage.passes(LOCK_DURATION)
        assert receive(bob) == []
        ann.rollback()
        assert numbers_of(receive(bob)) == numbers


SETTLEMENTS: list[tuple[str, dict[str, Any]]] = [
    ("complete", {}),
    ("abandon", {}),
    ("abandon", {"delay": SECOND}),
    ("renew_lock", {}),
    ("pin", {}),
]


@pytest.mark.parametrize(("verb", "options"), SETTLEMENTS, ids=str)
def test_a_stale_token_is_refused_without_waiting(database: Database, verb: str, options: dict[str, Any]) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        buried(ann, 1)
        (late,) = receive(ann)
        stage.passes(LOCK_DURATION)
        (redelivered,) = receive(bob)
        bob.begin()
        bob.settle("pin", redelivered, queue=DEAD)
        with refused(LOCK_LOST):
            ann.settle(verb, late, queue=DEAD, **options)
        assert bob.value("select locked_until from pgqueue.dead_letters") == redelivered.locked_until
        bob.complete(redelivered, queue=DEAD)
        bob.commit()


@pytest.mark.parametrize(("verb", "options"), SETTLEMENTS, ids=str)
def test_the_token_is_valid_until_the_dead_letter_is_received_again(
    database: Database, verb: str, options: dict[str, Any]
) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        buried(ann, 1)
        (received,) = receive(ann)
        stage.passes(2 * LOCK_DURATION)
        ann.settle(verb, received, queue=DEAD, **options)
        if verb == "renew_lock":
            assert receive(bob) == []


def test_a_completion_that_meets_a_redelivery_waits_and_is_refused(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        buried(ann, 1)
        (late,) = receive(ann)
        stage.passes(LOCK_DURATION)
        bob.begin()
        (redelivered,) = receive(bob)
        completion = ann.starts(lambda: ann.complete(late, queue=DEAD))
        bob.commit()
        with refused(LOCK_LOST):
            completion.result()
        bob.complete(redelivered, queue=DEAD)


def test_a_renewal_that_meets_a_redelivery_half_way_does_not_renew_it(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob, gate = stage.sessions("ann", "bob", "gate")
        (number,) = buried(ann, 1)
        (late,) = receive(ann)
        stage.passes(LOCK_DURATION)
        # Ann has found her dead letter, and stops before she locks its row.
        stage.prompter.rows(
            "create function pgqueue_testing.gate() returns boolean language sql"
            " as 'select pg_advisory_xact_lock_shared(1) is not null'"
        )
        stage.rewrite(
            "_lock_dead_letters",
            "for update of dead_letter skip locked",
            "and pgqueue_testing.gate() for update of dead_letter skip locked",
        )
        gate.value("select pg_advisory_lock(1)")
        renewal = ann.starts(lambda: ann.settle_batch("renew_lock_batch", [late], queue=DEAD, lock_duration=SECOND))
        (redelivered,) = receive(bob)
        gate.value("select pg_advisory_unlock(1)")
        assert renewal.result() == [(number, LOCK_LOST, None)]
        assert bob.value("select locked_until from pgqueue.dead_letters") == redelivered.locked_until


def test_a_completion_with_a_view_older_than_the_lock_can_be_repeated_on_it(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        buried(ann, 1)
        ann.begin("repeatable read")
        ann.value("select 1")
        (received,) = receive(bob)
        with refused(SERIALIZATION_FAILURE):
            ann.complete(received, queue=DEAD)
        ann.rollback()
        ann.begin("repeatable read")
        ann.complete(received, queue=DEAD)
        ann.commit()


def test_a_lost_lock_is_called_lost_while_its_next_holder_completes(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        buried(ann, 1)
        (late,) = receive(ann)
        stage.passes(LOCK_DURATION)
        (received,) = receive(bob)
        bob.begin()
        bob.complete(received, queue=DEAD)
        ann.begin("repeatable read")
        with refused(LOCK_LOST):
            ann.complete(late, queue=DEAD)
        ann.rollback()
        bob.commit()


BATCHES: list[tuple[str, dict[str, Any]]] = [
    ("complete_batch", {}),
    ("abandon_batch", {}),
    ("renew_lock_batch", {}),
]


@pytest.mark.parametrize(("verb", "options"), [*BATCHES, ("release_batch", {}), ("pin_batch", {})], ids=str)
def test_a_lock_that_is_lost_neither_hides_nor_undoes_the_others(
    database: Database, verb: str, options: dict[str, Any]
) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        buried(ann, 2)
        first, second = receive(ann, 2)
        stale = replace(first, lock_token=uuid4())
        outcomes = [row[:2] for row in ann.settle_batch(verb, [stale, second, first], queue=DEAD, **options)]
        assert outcomes == [
            (first.sequence_number, LOCK_LOST),
            (second.sequence_number, None),
            (first.sequence_number, None),
        ]


@pytest.mark.parametrize(("verb", "options"), BATCHES, ids=str)
def test_an_atomic_batch_with_a_lost_lock_changes_nothing(
    database: Database, verb: str, options: dict[str, Any]
) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        buried(ann, 2)
        first, second = receive(ann, 2)
        before = ann.values("select letter from pgqueue.dead_letter as letter")
        with refused(LOCK_LOST):
            ann.settle_batch(verb, [first, replace(second, lock_token=uuid4())], queue=DEAD, atomic=True, **options)
        assert ann.values("select letter from pgqueue.dead_letter as letter") == before


@pytest.mark.parametrize("dead_lettering", [False, True])
def test_dead_letters_never_expire(database: Database, dead_lettering: bool) -> None:
    with Stage(
        database, default_message_time_to_live=SECOND, dead_lettering_on_message_expiration=dead_lettering
    ) as stage:
        ann = stage.session("ann")
        (number,) = buried(ann, 1)
        stage.passes(timedelta(days=365))
        assert ann.table("sweep") == []
        assert numbers_of(receive(ann)) == [number]
        stage.passes(LOCK_DURATION)
        assert ann.values(f"select sequence_number from pgqueue.receive_and_delete('{DEAD}')") == [number]


def test_dead_letters_are_never_dead_lettered_again(database: Database) -> None:
    with Stage(database, max_delivery_count=1) as stage:
        ann = stage.session("ann")
        (number,) = buried(ann, 1)
        for count in range(2, 5):
            (received,) = receive(ann)
            assert received.delivery_count == count
            stage.passes(LOCK_DURATION)
            assert ann.table("sweep") == []
        assert ann.rows("select sequence_number, dead_letter_reason from pgqueue.dead_letters") == [(number, "r")]


REFUSED = [
    "send('{}', '1')",
    "send_batch('{}', array['1'::jsonb])",
    "schedule('{}', '1', pgqueue.clock())",
    "cancel_scheduled('{}', '{{1}}')",
    "receive_deferred('{}', '{{1}}')",
    "dead_letter('{}', 1, gen_random_uuid(), 'r')",
    "dead_letter_batch('{}', '{{1}}', array[gen_random_uuid()], 'r')",
    "defer('{}', 1, gen_random_uuid())",
    "defer_batch('{}', '{{1}}', array[gen_random_uuid()])",
    "resubmit('{}')",
    "receive_dead_letters('{}')",
    "peek_dead_letters('{}')",
    "take_turn('{}')",
    "alter_queue('{}')",
    "drop_queue('{}')",
    "create_queue('{}')",
]


def test_verbs_that_do_not_apply_to_dead_letters_are_refused(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        buried(ann, 1)
        for call in REFUSED:
            with refused(INVALID_ARGUMENT, call):
                ann.rows(f"select * from pgqueue.{call.format(DEAD)}")
        assert len(ann.values(LETTERS)) == 1


UNKNOWN = [
    "receive('{}')",
    "receive_and_delete('{}')",
    "peek('{}')",
    "purge_queue('{}')",
    "complete('{}', 1, gen_random_uuid())",
    "abandon('{}', 1, gen_random_uuid())",
    "renew_lock('{}', 1, gen_random_uuid())",
    "pin('{}', 1, gen_random_uuid())",
    "complete_batch('{}', '{{1}}', array[gen_random_uuid()])",
    "release_batch('{}', '{{1}}', array[gen_random_uuid()])",
    "pin_batch('{}', '{{1}}', array[gen_random_uuid()])",
]


def test_the_dead_letters_of_an_unknown_queue_are_unknown(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        for call in UNKNOWN:
            with refused(UNKNOWN_QUEUE, call):
                ann.rows(f"select * from pgqueue.{call.format('nowhere/$deadletterqueue')}")


def test_settings_of_the_queue_hold_for_its_dead_letters(database: Database) -> None:
    with Stage(database, lock_duration=SECOND) as stage:
        ann = stage.session("ann")
        buried(ann, 1)
        (received,) = receive(ann)
        assert received.locked_until == ann.call("clock") + SECOND
        ann.call("alter_queue", queue="q", status="RECEIVE_DISABLED")
        for verb in ("receive", "receive_and_delete"):
            with refused(QUEUE_DISABLED, verb):
                ann.table(verb, queue=DEAD)
        ann.complete(received, queue=DEAD)


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("abandon", {"delay": -SECOND}),
    ("abandon", {"properties": Jsonb([])}),
    ("renew_lock", {"lock_duration": timedelta(0)}),
]


def test_a_wrong_argument_is_refused_and_the_lock_is_still_held(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        buried(ann, 1)
        (received,) = receive(ann)
        for verb, options in WRONG:
            with refused(INVALID_ARGUMENT, (verb, options)):
                ann.settle(verb, received, queue=DEAD, **options)
        for verb in ("receive", "receive_and_delete", "peek", "purge_queue"):
            with refused(INVALID_ARGUMENT, verb):
                ann.table(verb, queue=DEAD, max_messages=0)
        with refused(INVALID_ARGUMENT):
            receive(ann, lock_duration=timedelta(0))
        for verb in ("complete_batch", "abandon_batch", "renew_lock_batch", "release_batch", "pin_batch"):
            with refused(INVALID_ARGUMENT, verb):
                ann.table(verb, queue=DEAD, sequence_numbers=[1], lock_tokens=[])
        ann.complete(received, queue=DEAD)


def test_dead_letters_are_received_and_deleted(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        numbers = buried(ann, 3)
        receive(bob)
        taken = f"select sequence_number from pgqueue.receive_and_delete('{DEAD}', 9)"
        ann.begin()
        assert ann.values(taken) == numbers[1:]
        ann.rollback()
        assert ann.values(taken) == numbers[1:]
        assert ann.values(LETTERS) == numbers[:1]


def test_dead_letters_are_peeked_at_without_their_tokens(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        numbers = buried(ann, 3)
        receive(ann)
        peek = "select sequence_number from pgqueue.peek('q/$deadletterqueue', {}, {})"
        assert ann.values(peek.format(9, 0)) == numbers
        assert ann.values(peek.format(1, numbers[1])) == [numbers[1]]
        assert ann.rows("select lock_token, locked_until is null from pgqueue.peek('q/$deadletterqueue', 2)") == [
            (None, False),
            (None, True),
        ]


def test_dead_letters_are_purged_under_their_own_name_only(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        numbers = buried(ann, 4)
        ann.send("a")
        assert ann.call("purge_queue", queue="q") == 1
        assert ann.call("purge_queue", queue=DEAD, max_messages=1) == 1
        (received,) = receive(bob)
        bob.begin()
        bob.complete(received, queue=DEAD)
        assert ann.call("purge_queue", queue=DEAD) == 2
        bob.rollback()
        assert ann.values(LETTERS) == numbers[1:2]
        assert ann.call("purge_queue", queue=DEAD) == 1
        with refused(LOCK_LOST):
            bob.complete(received, queue=DEAD)


def test_a_resubmission_skips_what_is_held_under_lock(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        numbers = buried(ann, 3)
        (received,) = receive(ann)
        assert resubmitted(ann, sequence_numbers=numbers[:2]) == numbers[1:2]
        assert resubmitted(ann) == numbers[2:]
        ann.settle("renew_lock", received, queue=DEAD)
        stage.passes(LOCK_DURATION)
        assert resubmitted(ann) == numbers[:1]
        with refused(LOCK_LOST):
            ann.complete(received, queue=DEAD)
        assert ann.numbers(9) == [*numbers[1:], numbers[0]]


def test_a_resubmitted_message_has_no_trace_of_its_death_and_no_holder(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.send("a", application_properties=Jsonb({"a": 1}))
        sent = ann.value("select enqueued_time from pgqueue.messages")
        ann.settle("dead_letter", ann.receive()[0], reason="r", description="d")
        receive(ann)
        stage.passes(LOCK_DURATION)
        assert len(resubmitted(ann)) == 1
        columns = "enqueued_time, delivery_count, locked_until, locked_by, application_properties"
        assert ann.rows(f"select {columns} from pgqueue.messages") == [(sent, 0, None, None, {"a": 1})]


def test_the_time_to_live_of_a_resubmitted_message_starts_again(database: Database) -> None:
    with Stage(database, dead_lettering_on_message_expiration=True) as stage:
        ann = stage.session("ann")
        (mortal,) = ann.send("a", time_to_live=10 * SECOND)
        (immortal,) = ann.send("b")
        stage.passes(5 * SECOND)
        ann.settle_batch("dead_letter_batch", ann.receive(2), reason="r")
        stage.passes(LOCK_DURATION)
        assert resubmitted(ann) == [mortal, immortal]
        stage.passes(10 * SECOND - timedelta(microseconds=1))
        assert ann.value(f"select state from pgqueue.messages where sequence_number = {mortal}") == "READY"
        stage.passes(timedelta(microseconds=1))
        assert ann.numbers(9) == [immortal]
        assert ann.rows("select sequence_number, dead_letter_reason from pgqueue.dead_letters") == [
            (mortal, "TTLExpiredException")
        ]


def test_many_are_resubmitted_in_batches_each_after_the_last(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        numbers = buried(ann, 7)
        (held,) = receive(ann)
        moved: list[int] = []
        while more := resubmitted(ann, max_messages=2, after=moved[-1] if moved else None):
            assert len(more) <= 2
            moved += more
            assert moved == sorted(set(moved))
            # One that dies again meanwhile is not met a second time.
            ann.settle("dead_letter", ann.receive()[0], reason="again")
        assert moved == numbers[1:]
        assert ann.values(f"{LETTERS} where dead_letter_reason = 'r'") == [held.sequence_number]


def test_a_purge_and_a_resubmission_skip_each_other(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        numbers = buried(ann, 2)
        ann.begin()
        assert resubmitted(ann, max_messages=1) == numbers[:1]
        assert bob.call("purge_queue", queue=DEAD) == 1
        ann.commit()
        assert ann.numbers(9) == numbers[:1]


def buried(session: Session, count: int) -> list[int]:
    """Dead letters, buried last first."""
    numbers = session.send_many(count)
    for message in session.receive(count)[::-1]:
        session.settle("dead_letter", message, reason="r", description="d")
    return numbers


def receive(session: Session, max_messages: int = 1, **options: Any) -> list[Received]:
    return session.receive(max_messages, queue=DEAD, **options)


def numbers_of(messages: list[Received]) -> list[int]:
    return [message.sequence_number for message in messages]


def resubmitted(session: Session, **choice: Any) -> list[int]:
    return [number for (number,) in session.table("resubmit", queue="q", **choice)]


def resolved(session: Session, message: Received, transaction: str | None) -> Any:
    return session.settle("resolve", message, queue=DEAD, transaction_id=transaction)


def test_a_purge_skips_dead_letters_being_settled(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        _, other = buried(ann, 2)
        (received,) = ann.receive(queue=DEAD)
        stage.passes(LOCK_DURATION)
        ann.begin()
        ann.complete(received, queue=DEAD)
        assert bob.values("select pgqueue.purge_dead_letters('q')") == [other]
        ann.commit()
        assert bob.values("select sequence_number from pgqueue.dead_letter") == []
