"""Dead letters and deferred messages are read from their front on, which passes none, however late a commit is."""

from __future__ import annotations

from datetime import timedelta

from pgqueue.testing import Database
from tests.sql.stage import DEAD, LOCK_DURATION, SECOND, Session, Stage
from tests.sql.test_plans import Explainer

#: Far less than the dead rows here.
FEW_PAGES = 100
GO_BACK = "select setval('pgqueue.sequence_number', %(number)s)"
SHOWN = {
    "DEAD_LETTERED": [
        "select sequence_number from pgqueue.peek_dead_letters('q', 2000)",
        "select sequence_number from pgqueue.find_messages('q', 'DEAD_LETTERED', max_messages => 2000)",
        "select sequence_number from pgqueue.dead_letters",
    ],
    "DEFERRED": [
        "select sequence_number from pgqueue.deferred_messages",
        "select sequence_number from pgqueue.messages where state = 'DEFERRED'",
        "select sequence_number from pgqueue._messages_of((select id from pgqueue.queue)) where lane > 800",
    ],
}
SETTLE = {"DEAD_LETTERED": ("dead_letter_batch", {"reason": "r"}), "DEFERRED": ("defer_batch", {})}


def set_aside(session: Session, count: int, kind: str = "DEAD_LETTERED") -> list[int]:
    """New dead letters or deferred messages."""
    session.send_many(count)
    verb, options = SETTLE[kind]
    return [int(number) for number, _ in session.settle_batch(verb, session.receive(count), **options)]


def shown(session: Session, kind: str = "DEAD_LETTERED") -> list[int]:
    """The messages that each reader sees, which must be the same."""
    first, *others = (session.values(statement) for statement in SHOWN[kind])
    assert all(numbers == first for numbers in others)
    return first


def reached(session: Session, kind: str = "DEAD_LETTERED") -> int:
    front = "select reached from pgqueue.front where kind = %(kind)s order by turn desc limit 1"
    return int(session.value(front, kind=kind))


def first_number(session: Session) -> int:
    front = "select first_number from pgqueue.front where kind = 'DEAD_LETTERED' order by turn desc limit 1"
    return int(session.value(front))


def passes(stage: Stage, session: Session, kind: str = "DEAD_LETTERED", times: int = 3) -> int:
    """Where the front is after some seconds in which it was moved."""
    for _ in range(times):
        stage.passes(2 * SECOND)
        session.rows("select pgqueue._pass_front(id, %(kind)s) from pgqueue.queue", kind=kind)
    return reached(session, kind)


def last_number(session: Session) -> int:
    return int(session.value("select pgqueue._last_number_drawn()"))


def read(explainer: Explainer, statement: str) -> int:
    return sum(plan.pages for plan in explainer.plans(lambda: explainer.session.rows(statement)))


def forget(session: Session) -> None:
    """Another stage may follow in this database."""
    session.call("drop_queue", queue="q")


def found_after_a_late_commit(stage: Stage, kind: str) -> None:
    ann, bob = stage.sessions("ann", "bob")
    ann.send_many(1)
    (held,) = ann.receive()
    verb, options = SETTLE[kind]
    passes(stage, bob, kind)
    ann.begin()
    ann.settle_batch(verb, [held], **options)
    drawn = last_number(bob)
    assert passes(stage, bob, kind) >= drawn
    assert shown(ann, kind) == [held.sequence_number]
    assert shown(bob, kind) == []
    ann.commit()
    assert shown(bob, kind) == [held.sequence_number]
    passes(stage, bob, kind)
    assert shown(bob, kind) == [held.sequence_number]


def test_a_dead_letter_whose_transaction_commits_late_is_found(database: Database) -> None:
    with Stage(database) as stage:
        found_after_a_late_commit(stage, "DEAD_LETTERED")


def test_a_deferred_message_whose_transaction_commits_late_is_found(database: Database) -> None:
    with Stage(database) as stage:
        found_after_a_late_commit(stage, "DEFERRED")


def test_a_dead_letter_of_a_late_commit_is_received_resubmitted_and_purged(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send_many(3)
        held = ann.receive(3)
        ann.begin()
        ann.settle_batch("dead_letter_batch", held, reason="r")
        passes(stage, bob)
        ann.commit()
        (first, second, third) = (message.sequence_number for message in held)
        assert bob.numbers(queue=DEAD) == [first]
        assert bob.values("select pgqueue.resubmit('q', max_messages => 1)") == [second]
        assert bob.values("select pgqueue.purge_dead_letters('q', max_messages => 1)") == [third]


def test_messages_of_two_transactions_that_commit_late_are_found(database: Database) -> None:
    for kind in SETTLE:
        with Stage(database) as stage:
            ann, ben, bob = stage.sessions("ann", "ben", "bob")
            passes(stage, bob, kind)
            ann.begin()
            first = set_aside(ann, 1, kind)
            passes(stage, bob, kind)
            ben.begin()
            second = set_aside(ben, 1, kind)
            passes(stage, bob, kind)
            ben.commit()
            assert shown(bob, kind) == second
            passes(stage, bob, kind)
            ann.commit()
            assert shown(bob, kind) == first + second
            forget(bob)


def test_a_dead_letter_of_a_prepared_transaction_is_found(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        passes(stage, bob)
        ann.begin()
        numbers = set_aside(ann, 1)
        ann.rows("prepare transaction 'buried'")
        passes(stage, bob)
        assert shown(bob) == []
        ann.rows("commit prepared 'buried'")
        assert shown(bob) == numbers


def test_a_dead_letter_that_is_rolled_back_is_a_message_again(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.send_many(1)
        (held,) = ann.receive()
        ann.begin()
        ann.settle("dead_letter", held, reason="r")
        passes(stage, bob)
        ann.rollback()
        passes(stage, bob)
        assert shown(bob) == []
        ann.settle("dead_letter", held, reason="r")
        assert shown(bob) == [held.sequence_number]


def test_a_front_that_was_moved_by_a_transaction_that_is_rolled_back_is_not_moved(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        numbers = set_aside(ann, 3)
        ann.begin()
        ann.call("purge_queue", queue=DEAD)
        passes(stage, ann)
        assert shown(ann) == []
        ann.rollback()
        assert shown(ann) == numbers


def test_a_snapshot_taken_before_the_front_moved_sees_what_it_saw(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        numbers = {kind: set_aside(ann, 3, kind) for kind in SETTLE}
        bob.begin("repeatable read")
        assert {kind: shown(bob, kind) for kind in SETTLE} == numbers
        ann.call("purge_queue", queue=DEAD)
        ann.call("purge_queue", queue="q")
        for kind in SETTLE:
            assert passes(stage, ann, kind) > 0
        assert {kind: shown(bob, kind) for kind in SETTLE} == numbers
        bob.commit()


def test_a_transaction_with_an_old_snapshot_does_not_move_a_front(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        passes(stage, bob)
        bob.begin("repeatable read")
        assert shown(bob) == []
        numbers = set_aside(ann, 1)
        passes(stage, bob)
        bob.commit()
        assert shown(ann) == numbers


def test_two_sessions_that_move_a_front_do_not_wait_for_each_other(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        ann.begin()
        passes(stage, ann)
        passes(stage, bob)
        ann.commit()
        passes(stage, bob)


def test_a_front_does_not_pass_what_was_drawn_since_the_horizon(database: Database) -> None:
    for kind in SETTLE:
        with Stage(database) as stage:
            ann, bob = stage.sessions("ann", "bob")
            passes(stage, bob, kind)
            horizon = last_number(bob)
            ann.begin()
            numbers = set_aside(ann, 1, kind)
            assert passes(stage, bob, kind, times=1) <= horizon
            ann.commit()
            assert shown(bob, kind) == numbers
            forget(bob)


def test_a_deferred_message_is_not_passed(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        (old,) = set_aside(ann, 1, "DEFERRED")
        numbers = [old, *set_aside(ann, 5, "DEFERRED")]
        passes(stage, ann, "DEFERRED")
        assert shown(ann, "DEFERRED") == numbers
        ann.complete(ann.receive_deferred(old)[0])
        place = ann.value("select min(position) from pgqueue.message")
        assert passes(stage, ann, "DEFERRED") == place - 1
        assert shown(ann, "DEFERRED") == numbers[1:]


def test_deferred_messages_of_all_priorities_are_found(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        numbers = [ann.call("send", queue="q", body="1", priority=priority) for priority in (3, -2)]
        ann.settle_batch("defer_batch", ann.receive(2))
        passes(stage, ann, "DEFERRED")
        assert shown(ann, "DEFERRED") == numbers[::-1]
        assert ann.call("purge_queue", queue="q", max_messages=9) == 2


def test_a_dead_letter_with_a_lower_number_than_the_first_is_found_in_the_order_of_numbers(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        numbers = ann.send_many(9)
        held = ann.receive(9)
        ann.settle_batch("dead_letter_batch", held[5:], reason="r")
        passes(stage, ann)
        assert first_number(ann) == numbers[5]
        ann.settle_batch("dead_letter_batch", held[4:1:-1], reason="r")
        assert shown(ann) == numbers[2:]
        later = f"select sequence_number from pgqueue.peek_dead_letters('q', 9, {numbers[3]})"
        assert ann.values(later) == numbers[3:]
        passes(stage, ann)
        assert first_number(ann) == numbers[2]
        assert shown(ann) == numbers[2:]
        assert ann.numbers(9, queue=DEAD) == numbers[2:]


def test_a_locked_dead_letter_is_not_passed(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        numbers = set_aside(ann, 3)
        ann.receive(queue=DEAD)
        passes(stage, ann)
        assert shown(ann) == numbers
        stage.passes(LOCK_DURATION)
        assert ann.numbers(9, queue=DEAD) == numbers


def test_more_than_a_thousand_dead_letters_that_came_since_are_found(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        numbers = ann.send_many(1002)
        *held, last = ann.receive(1002)
        ann.settle("dead_letter", last, reason="r")
        passes(stage, ann)
        ann.settle_batch("dead_letter_batch", held[::-1], reason="r")
        assert shown(ann) == numbers


def test_fronts_do_not_depend_on_the_clock(database: Database) -> None:
    for kind in SETTLE:
        with Stage(database) as stage:
            ann = stage.session("ann")
            passes(stage, ann, kind)
            stage.passes(-60 * SECOND)
            numbers = set_aside(ann, 2, kind)
            before = reached(ann, kind)
            assert passes(stage, ann, kind) >= before
            assert shown(ann, kind) == numbers
            stage.passes(timedelta(hours=1))
            passes(stage, ann, kind)
            assert shown(ann, kind) == numbers
            forget(ann)


def test_a_front_moves_again_after_the_clock_went_back(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        passes(stage, ann)
        stage.passes(-60 * SECOND)
        set_aside(ann, 1)
        drawn = last_number(ann)
        assert passes(stage, ann) >= drawn


def test_messages_are_found_when_the_sequence_went_back(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.value(GO_BACK, number=1000)
        for kind in SETTLE:
            assert passes(stage, ann, kind) >= 1000
        ann.value(GO_BACK, number=500)
        numbers = {kind: set_aside(ann, 2, kind) for kind in SETTLE}
        for _ in range(2):
            stage.passes(2 * SECOND)
            ann.table("sweep")
        assert last_number(ann) > 1000
        for kind in SETTLE:
            passes(stage, ann, kind)
        assert {kind: shown(ann, kind) for kind in SETTLE} == numbers


def test_moving_a_front_repairs_a_sequence_that_went_back(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.value(GO_BACK, number=3_000_000)
        passes(stage, ann)
        ann.value(GO_BACK, number=500)
        numbers = set_aside(ann, 2)
        passes(stage, ann)
        assert last_number(ann) > 3_000_000
        assert shown(ann) == numbers


def test_a_message_of_an_open_transaction_is_found_when_fronts_begin_again(database: Database) -> None:
    with Stage(database) as stage:
        ann, slow = stage.sessions("ann", "slow")
        ann.value(GO_BACK, number=1000)
        passes(stage, ann)
        ann.value(GO_BACK, number=500)
        numbers = slow.send_many(2)
        held = slow.receive(2)
        slow.begin()
        slow.settle_batch("dead_letter_batch", held, reason="r")
        passes(stage, ann)
        assert last_number(ann) > 1000
        slow.commit()
        assert shown(ann) == numbers
        passes(stage, ann)
        assert shown(ann) == numbers


def test_the_position_of_a_dead_letter_is_not_handed_out_again(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        set_aside(ann, 1)
        last = last_number(ann)
        ann.value(GO_BACK, number=last - 1)
        for _ in range(2):
            stage.passes(2 * SECOND)
            ann.table("sweep")
        assert ann.send("a")[0] > last


def restored_before_the_front(stage: Stage, session: Session, kind: str) -> list[int]:
    """Dead letters or deferred messages that were deleted and come back when the front has passed them."""
    table = {"DEAD_LETTERED": "dead_letter", "DEFERRED": "message"}[kind]
    numbers = set_aside(session, 1, kind)
    session.rows(f"create table restored as select * from pgqueue.{table}")
    session.call("purge_queue", queue=DEAD)
    session.call("purge_queue", queue="q")
    passes(stage, session, kind)
    session.rows(f"insert into pgqueue.{table} select * from restored; drop table restored")
    assert shown(session, kind) == []
    return numbers


def test_a_sweep_finds_what_was_restored_before_the_front(database: Database) -> None:
    for kind in SETTLE:
        with Stage(database) as stage:
            ann = stage.session("ann")
            numbers = restored_before_the_front(stage, ann, kind)
            assert len(ann.values("select pgqueue.broken_invariants()")) == 1
            ann.table("sweep", thorough=True)
            assert shown(ann, kind) == numbers
            forget(ann)


def test_a_sweep_does_not_wait_for_who_moves_a_front(database: Database) -> None:
    with Stage(database) as stage:
        ann, bob = stage.sessions("ann", "bob")
        numbers = restored_before_the_front(stage, ann, "DEAD_LETTERED")
        bob.begin()
        passes(stage, bob)
        ann.table("sweep")
        bob.commit()
        ann.table("sweep")
        assert shown(ann) == numbers


def test_messages_of_a_queue_without_a_front_are_found(database: Database) -> None:
    """One that a function of an older version created while the database was upgraded."""
    for kind in SETTLE:
        with Stage(database) as stage:
            ann = stage.session("ann")
            ann.rows("delete from pgqueue.front")
            numbers = set_aside(ann, 3, kind)
            ann.rows("select pgqueue._pass_front(id, %(kind)s) from pgqueue.queue", kind=kind)
            ann.table("sweep")
            assert shown(ann, kind) == numbers
            forget(ann)


def died(session: Session, kind: str, count: int = 5000) -> None:
    """Many dead letters or deferred messages came and are gone; a few are left."""
    set_aside(session, count, kind)
    session.call("purge_queue", queue=DEAD)
    session.call("purge_queue", queue="q")
    set_aside(session, 3, kind)


def test_a_sweep_moves_the_fronts_once_it_has_read_many_pages(database: Database) -> None:
    with Stage(database) as stage, stage.session("holder").connection as holder:
        holder.execute("begin isolation level repeatable read; select")
        ann = stage.session("ann")
        for kind in SETTLE:
            died(ann, kind)
        for _ in range(3):
            stage.passes(60 * SECOND)
            ann.table("sweep")
        explainer = Explainer(ann)
        for view in ("dead_letters", "deferred_messages"):
            assert read(explainer, f"select from pgqueue.{view} limit 1") < FEW_PAGES
        holder.execute("rollback")


def test_a_sweep_of_an_idle_queue_does_not_move_the_fronts(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        for kind in SETTLE:
            set_aside(ann, 3, kind)
        before = ann.rows("select kind, max(turn) from pgqueue.front group by kind order by kind")
        for _ in range(3):
            stage.passes(60 * SECOND)
            ann.table("sweep")
        assert ann.rows("select kind, max(turn) from pgqueue.front group by kind order by kind") == before


def test_a_receive_of_no_dead_letters_writes_nothing(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        for _ in range(3):
            stage.passes(2 * SECOND)
            ann.begin()
            assert ann.receive(queue=DEAD) == []
            assert ann.value("select pg_current_xact_id_if_assigned()") is None
            ann.commit()


def test_dead_letters_are_consumed_without_reading_what_was_consumed(database: Database) -> None:
    loops = {
        "resubmit": "select count(*) from pgqueue.resubmit('q', max_messages => 100)",
        "purge": f"select pgqueue.purge_queue('{DEAD}', 100)",
        "purge_dead_letters": "select count(*) from pgqueue.purge_dead_letters('q', max_messages => 100)",
        "receive": f"select count(*) from pgqueue.receive_and_delete('{DEAD}', 100)",
    }
    with Stage(database) as stage, stage.session("holder").connection as holder:
        holder.execute("begin isolation level repeatable read; select")
        ann = stage.session("ann")
        explainer = Explainer(ann)
        for statement in loops.values():
            set_aside(ann, 5000)
            pages = []
            for _ in range(50):
                stage.passes(SECOND)
                pages.append(read(explainer, statement))
            assert ann.value("select count(*) from pgqueue.dead_letter") == 0
            assert max(pages[10:]) < 3 * max(pages[:3])
        holder.execute("rollback")
