"""The counts of queues: exact, for one queue and for all, and in one pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import psycopg
import pytest

from pgqueue.testing import Database
from tests.sql.stage import INVALID_ARGUMENT, LOCK_DURATION, SECOND, Session, Stage
from tests.sql.test_plans import Explainer, assert_cheap

COUNTED = ("ready", "locked", "deferred", "expired", "scheduled", "dead_letters")
COUNTS = f"select {', '.join(COUNTED)}, oldest_enqueued_time from"


@pytest.mark.parametrize("by_cursors", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_counts_are_those_of_a_model(database: Database, seed: int, by_cursors: bool) -> None:
    with Stage(database) as stage:
        if by_cursors:  # as where most of the tables has died
            stage.rewrite("_rows_to_count", "living < pages and living + dead >= pages", "true")
        ann = stage.session("ann")
        names = ["q", "other", "empty"]
        for name in names[1:]:
            ann.call("create_queue", queue=name)
        model = {name: fill(ann, name, Random(f"{seed} {name}")) for name in names[:2]} | {"empty": Counter[str]()}
        stage.passes(SECOND)
        for name in names:
            expected = tuple(model[name][state] for state in COUNTED)
            (one,) = ann.rows(f"{COUNTS} pgqueue.queue_counts(%(name)s)", name=name)
            assert one[:-1] == expected
            assert ann.rows(f"{COUNTS} pgqueue.queue_counts() where name = %(name)s", name=name) == [one]
            assert ann.rows(f"{COUNTS} pgqueue.queues where name = %(name)s", name=name) == [one]
            ready = "select min(enqueued_time) from pgqueue.messages where queue = %(name)s and state = 'READY'"
            assert one[-1] == ann.value(ready, name=name)


def test_all_queues_are_counted_in_one_pass_over_each_table(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        for number in range(50):
            ann.call("create_queue", queue=f"queue-{number}")
            ann.rows(f"select pgqueue.send_batch('queue-{number}', array_fill('1'::jsonb, array[40]))")
        explainer = Explainer(ann)
        plans = explainer.plans(lambda: ann.rows("select name, ready from pgqueue.queues"))
        scans = [node for plan in plans for node in plan.nodes() if node.get("Relation Name") == "message"]
        assert [scan["Actual Loops"] for scan in scans] == [1]


def test_one_queue_is_counted_without_reading_the_others(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="small")
        ann.rows("select pgqueue.send_batch('q', array_fill('1'::jsonb, array[20000]))")
        ann.rows("select pgqueue.send('small', '1')")
        ann.rows("analyze pgqueue.message")
        explainer = Explainer(ann)
        assert_cheap(explainer.fewest(lambda: ann.rows("select from pgqueue.queue_counts('small')")))


def test_estimates_of_small_tables_are_exact(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        fill(ann, "q", Random("estimates"))
        stage.passes(SECOND)
        (estimate,) = ann.rows(f"{COUNTS} pgqueue.queue_estimates()")
        assert [estimate] == ann.rows(f"{COUNTS} pgqueue.queue_counts()")
        assert ann.value("select is_exact from pgqueue.queue_estimates()") is True


def test_estimates_of_large_tables_are_marked_and_small_queues_are_counted(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        names = ["q", "small", "empty"]
        for name in names[1:]:
            ann.call("create_queue", queue=name)
        ann.send_many(7, "small")
        ann.receive(3, "small", lock_duration=60 * LOCK_DURATION)
        ann.rows("select pgqueue.schedule('small', '1', pgqueue.clock() + interval '1 hour')")
        for _ in range(4):
            ann.send_many(5000)
        ann.settle_batch("dead_letter_batch", ann.receive(2000), reason="r")
        ann.settle_batch("defer_batch", ann.receive(4000))
        ann.receive(1000)
        stage.passes(SECOND)
        exact = counted(ann, "queue_counts()")
        pages = ann.value("select pg_relation_size('pgqueue.message') / current_setting('block_size')::integer")
        found: dict[str, list[int]] = {}
        for share in (0.03, 0.95):
            found = counted(ann, f"queue_estimates({round(pages * share)})")
            assert found["small"] == exact["small"]
            assert found["empty"] == exact["empty"]
            assert all(estimate > 0 for estimate, count in zip(found["q"], exact["q"], strict=True) if count)
            is_exact = ann.rows(f"select name, is_exact from pgqueue.queue_estimates({round(pages * share)})")
            assert dict(is_exact) == {"q": False, "small": True, "empty": True}
        for estimate, count in zip(found["q"], exact["q"], strict=True):
            assert abs(estimate - count) < 0.3 * count + 1


@pytest.mark.parametrize("function", ["queue_counts()", "queue_counts('q')", "queue_estimates()", "queue_estimates(1)"])
def test_due_scheduled_messages_count_as_if_a_receive_had_moved_them(database: Database, function: str) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.call("create_queue", queue="other")
        for verb, at in (("send", ""), ("schedule", ", pgqueue.clock() + interval '1 hour'")):
            ann.rows(f"select pgqueue.{verb}('other', to_jsonb(repeat('x', 1000)){at}) from generate_series(1, 40)")
        schedule_some(ann)
        states = "ready, scheduled, expired, exhausted"
        query = f"select {states}, oldest_enqueued_time from pgqueue.{function} where name = 'q'"
        assert ann.rows(query)[0][:4] == (0, 6, 0, 0)
        stage.passes(2 * SECOND)
        before = ann.rows(query)
        assert before[0][:4] == (3, 1, 1, 1)
        ann.rows("select pgqueue._activate_scheduled(id, '-infinity') from pgqueue.queue where name = 'q'")
        assert ann.rows(query) == before


def test_a_sample_counts_due_scheduled_messages_as_ready(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        schedule_some(ann)
        stage.passes(60 * SECOND)
        ann.call("take_sample")
        assert ann.rows("select ready, scheduled, oldest_age from pgqueue.samples") == [(3, 1, 59.0)]


@pytest.mark.parametrize("pages", ["0", "null"])
def test_an_estimate_without_a_page_is_refused(database: Database, pages: str) -> None:
    with (
        Stage(database) as stage,
        pytest.raises(psycopg.Error, match="pages must be a positive whole number") as refusal,
    ):
        stage.session("ann").rows(f"select pgqueue.queue_estimates({pages})")
    assert refusal.value.sqlstate == INVALID_ARGUMENT


@pytest.fixture
def explainer(database: Database) -> Iterator[Explainer]:
    """A queue that is far larger than the samples are."""
    with Stage(database) as stage:
        explainer = Explainer(stage.session("ann"))
        for _ in range(4):
            explainer.session.send_many(5000)
        yield explainer


def test_an_estimate_reads_about_as_many_pages_as_it_may(explainer: Explainer) -> None:
    assert_cheap(explainer.fewest(lambda: explainer.session.rows("select from pgqueue.queue_estimates(20)")))


def test_an_estimate_sums_its_sample_before_it_looks_up_the_queues(explainer: Explainer) -> None:
    ann = explainer.session
    ann.rows("analyze pgqueue.message")
    plans = explainer.plans(lambda: ann.rows("select from pgqueue.queue_estimates(60)"))
    nodes = [node for plan in plans for node in plan.nodes() if "known" in plan.text]
    (sample,) = (node for node in nodes if node.get("Relation Name") == "message" and "Sample" in node["Node Type"])
    joined = [node["Actual Rows"] for node in nodes if node["Node Type"] in ("Hash Join", "Nested Loop", "Merge Join")]
    assert max(joined) < 30 < sample["Actual Rows"]


def schedule_some(session: Session) -> None:
    """Schedule four messages that are due in a second and one that is due in an hour; abandon one for a second."""
    session.rows("select pgqueue.send('q', '1')")
    (message,) = session.receive()
    session.settle("abandon", message, delay=SECOND)
    for seconds, lives in ((1, "null"), (1, "null"), (1, "interval '1 hour'"), (1, "interval '0.5 s'"), (3600, "null")):
        at = f"pgqueue.clock() + interval '{seconds} s'"
        session.rows(f"select pgqueue.schedule('q', '1', {at}, time_to_live => {lives})")
    session.call("alter_queue", queue="q", max_delivery_count=1)


def counted(session: Session, function: str) -> dict[str, list[int]]:
    """The numbers of messages by queue."""
    rows = session.rows(f"select name, {', '.join(COUNTED)} from pgqueue.{function}")
    return {name: numbers for name, *numbers in rows}


def fill(session: Session, queue: str, random: Random) -> Counter[str]:
    """Bring as many messages as chance has it into every state, and count them."""
    model = Counter({state: random.randrange(1, 9) for state in COUNTED})
    for state in ("dead_letters", "deferred", "scheduled", "locked", "expired", "ready"):
        for _ in range(model[state]):
            if state == "scheduled":
                at = "pgqueue.clock() + interval '1 hour'"
                session.rows(f"select pgqueue.schedule(%(queue)s, '1', {at})", queue=queue)
                continue
            lives = "interval '1 second'" if state == "expired" else "null"
            session.rows(f"select pgqueue.send(%(queue)s, '1', time_to_live => {lives})", queue=queue)
            if state in ("dead_letters", "deferred", "locked"):
                (message,) = session.receive(queue=queue, lock_duration=60 * LOCK_DURATION)
                if state == "dead_letters":
                    session.settle("dead_letter", message, queue=queue, reason="r")
                if state == "deferred":
                    session.settle("defer", message, queue=queue)
    return model
