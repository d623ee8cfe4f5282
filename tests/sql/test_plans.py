"""The plans that verbs run, as the server logs them: a claim never sorts, and nothing ever reads a table through."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from pgqueue.testing import Database
from pgqueue.testing.plugin import SharedServer
from tests.sql.stage import DEAD, LOCK_DURATION, SECOND, Received, Session, Stage

FEW_PAGES = 150

#: The indexes of the thirty thousand messages that a send to a bounded queue counts.
COUNTED_PAGES = 250

EXPLAIN = """
load 'auto_explain';
set auto_explain.log_min_duration = 0;
set auto_explain.log_nested_statements = on;
set auto_explain.log_analyze = on;
set auto_explain.log_timing = off;
set auto_explain.log_buffers = on;
set auto_explain.log_format = json;
set auto_explain.log_level = notice;
"""


@dataclass(frozen=True)
class Plan:
    """One statement that was run inside a function, and how."""

    text: str
    root: dict[str, Any]

    def nodes(self) -> Iterator[dict[str, Any]]:
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.get("Plans", [])

    @property
    def kinds(self) -> set[str]:
        return {node["Node Type"] for node in self.nodes()}

    @property
    def indexes(self) -> set[str]:
        return {node["Index Name"] for node in self.nodes() if "Index Name" in node}

    @property
    def pages(self) -> int:
        """The pages that its scans of tables looked at."""
        scans = [node for node in self.nodes() if "Relation Name" in node and node["Node Type"].endswith("Scan")]
        return sum(scan["Shared Hit Blocks"] + scan["Shared Read Blocks"] for scan in scans)


@dataclass
class Explainer:
    """A session that explains the statements it runs."""

    session: Session
    _said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.session.rows(EXPLAIN)
        self.session.connection.add_notice_handler(self._hear)

    def _hear(self, notice: psycopg.errors.Diagnostic) -> None:
        self._said.append(notice.message_primary or "")

    def plans(self, step: Callable[[], object]) -> list[Plan]:
        self._said.clear()
        step()
        explained = [json.loads(said.partition("plan:\n")[2]) for said in self._said if said.startswith("duration:")]
        return [Plan(each["Query Text"], each["Plan"]) for each in explained]

    def fewest(self, step: Callable[[], object]) -> list[Plan]:
        """The plans of the cheapest of three runs.

        A scan whose condition calls a function is charged for what that reads of the catalogues, all of them if another
        database has just been set up: the backend has then forgotten what it knew.
        """
        return min((self.plans(step) for _ in range(3)), key=lambda plans: max(plan.pages for plan in plans))


def nothing(session: Session) -> None:
    """Leave the queue empty."""


def tiny(session: Session) -> None:
    session.send_many(3)
    session.rows("analyze pgqueue.message")


def large(session: Session) -> None:
    for _ in range(4):
        session.send_many(5000)
    session.rows("analyze pgqueue.message")


def large_but_never_analysed(session: Session) -> None:
    large(session)
    session.rows("update pg_class set reltuples = -1, relpages = 0 where relname = 'message'")


def large_but_analysed_when_empty(session: Session) -> None:
    session.rows("analyze pgqueue.message")
    for _ in range(4):
        session.send_many(5000)


def empty_but_analysed_when_large(session: Session) -> None:
    large(session)
    session.call("purge_queue", queue="q")
    session.send("left over")


def a_few_in_many_pages(session: Session) -> None:
    """The result of autoanalyze in a busy queue: the statistics of a handful of rows, in a table of many pages."""
    large(session)
    session.rows("delete from pgqueue.message where sequence_number % 5000 <> 0")
    session.rows("analyze pgqueue.message")


whatever_the_statistics = pytest.mark.parametrize(
    "fill",
    [
        nothing,
        tiny,
        large,
        large_but_never_analysed,
        large_but_analysed_when_empty,
        empty_but_analysed_when_large,
        a_few_in_many_pages,
    ],
    ids=lambda fill: fill.__name__,
)


@whatever_the_statistics
def test_a_claim_is_an_index_scan_without_a_sort(database: Database, fill: Callable[[Session], None]) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        fill(ann)
        explainer = Explainer(stage.session("bob"))
        plans = explainer.plans(lambda: explainer.session.receive(10))
        (claim,) = (plan for plan in plans if "limit max_messages" in plan.text)
        assert claim.indexes == {"message_pkey"}
        assert claim.kinds.isdisjoint({"Sort", "Incremental Sort", "Seq Scan", "Bitmap Heap Scan", "Bitmap Index Scan"})


@whatever_the_statistics
def test_each_outcome_is_looked_up_by_its_number(database: Database, fill: Callable[[Session], None]) -> None:
    with Stage(database, result_retention=LOCK_DURATION) as stage:
        ann = stage.session("ann")
        fill(ann)
        explainer = Explainer(stage.session("bob"))
        asked = "select from pgqueue.outcomes('q', array(select generate_series(1, 100)))"
        assert_cheap(explainer.fewest(lambda: explainer.session.rows(asked)), pages=100 * 15)


@pytest.mark.parametrize("verb", ["receive", "receive_and_delete"])
def test_a_claim_reads_nothing_of_what_is_scheduled_deferred_or_will_expire(database: Database, verb: str) -> None:
    with Stage(database, max_queue_length=1_000_000) as stage:
        explainer = Explainer(stage.session("ann"))
        ann = explainer.session
        set_aside(stage, ann)
        ann.send_many(20)
        plans = explainer.plans(lambda: ann.rows(f"select from pgqueue.{verb}('q', 10)"))
        (claim,) = (plan for plan in plans if "limit max_messages" in plan.text)
        assert claim.indexes == {"message_pkey"}
        assert_cheap(plans)


def complete(session: Session, message: Received) -> object:
    return session.complete(message)


def complete_batch(session: Session, message: Received) -> object:
    return session.settle_batch("complete_batch", [message])


def abandon(session: Session, message: Received) -> object:
    return session.settle("abandon", message)


def abandon_with_a_delay(session: Session, message: Received) -> object:
    return session.settle("abandon", message, delay=SECOND)


def release_batch(session: Session, message: Received) -> object:
    return session.settle_batch("release_batch", [message])


def dead_letter(session: Session, message: Received) -> object:
    return session.settle("dead_letter", message, reason="r")


def renew_lock(session: Session, message: Received) -> object:
    return session.settle("renew_lock", message, lock_duration=2 * LOCK_DURATION)


def pin(session: Session, message: Received) -> object:
    return session.settle("pin", message)


def pin_batch(session: Session, message: Received) -> object:
    return session.settle_batch("pin_batch", [message])


def renew_lock_batch(session: Session, message: Received) -> object:
    return session.settle_batch("renew_lock_batch", [message], lock_duration=2 * LOCK_DURATION)


def defer(session: Session, message: Received) -> object:
    return session.settle("defer", message)


@pytest.fixture(scope="module", params=["fresh", "came back", "lost"])
def delivery(request: pytest.FixtureRequest, database_server: SharedServer) -> Iterator[tuple[str, Stage]]:
    """The outcome of the deliveries of a large queue, and the queue."""
    with database_server.database(database_server.template) as database, Stage(database) as stage:
        large(stage.prompter)
        yield request.param, stage


@pytest.mark.parametrize(
    "settle",
    [
        complete,
        complete_batch,
        abandon,
        abandon_with_a_delay,
        release_batch,
        dead_letter,
        defer,
        renew_lock,
        renew_lock_batch,
        pin,
        pin_batch,
    ],
    ids=lambda settle: settle.__name__,
)
def test_a_settlement_reads_a_few_pages_of_a_large_queue(
    delivery: tuple[str, Stage], settle: Callable[[Session, Received], object]
) -> None:
    state, stage = delivery
    explainer = Explainer(stage.session("ann"))
    ann = explainer.session
    (received,) = ann.receive()
    if state == "came back":
        ann.abandon(received)
        (received,) = ann.receive()
    if state == "lost":
        stage.passes(LOCK_DURATION)
        bob = stage.session("bob")
        taken = {message.sequence_number: message for message in bob.receive(100)}
        assert received.sequence_number in taken
        del taken[received.sequence_number]
        bob.settle_batch("complete_batch", [*taken.values()])  # those of other tests, or they would be dead letters

    def step() -> None:
        try:
            settle(ann, received)
        except psycopg.Error:
            assert state == "lost"

    assert_cheap(explainer.fewest(undone(ann, step)))


VERBS: dict[str, str] = {
    "send": "select pgqueue.send('q', '1')",
    "receive": "select from pgqueue.receive('q', 10)",
    "receive_and_delete": "select from pgqueue.receive_and_delete('q', 10)",
    "peek": "select from pgqueue.peek('q', 10)",
    "peek from the middle": "select from pgqueue.peek('q', 10, 10000)",
    "peek_dead_letters": "select from pgqueue.peek_dead_letters('q', 10)",
    "purge_queue": "select pgqueue.purge_queue('q', 10)",
    "resubmit some": "select pgqueue.resubmit('q', max_messages => 10)",
    "resubmit one": "select pgqueue.resubmit('q', array[1500::bigint])",
    "sweep": "select from pgqueue.sweep(10)",
    "sweep without doing anything": "select from pgqueue.sweep(dry_run => true)",
    "alter_queue": "select pgqueue.alter_queue('q', max_delivery_count => 3)",
}


@pytest.fixture(scope="module")
def large_queue(database_server: SharedServer) -> Iterator[Stage]:
    """A queue in which most messages are ready, for tests that undo what they do."""
    with database_server.database(database_server.template) as database, Stage(database) as stage:
        large(stage.prompter)
        bury_and_put_off(stage.prompter)
        yield stage


@pytest.mark.parametrize("statement", VERBS.values(), ids=VERBS)
def test_a_verb_reads_a_few_pages_of_a_large_queue(large_queue: Stage, statement: str) -> None:
    explainer = Explainer(large_queue.session("ann"))
    ann = explainer.session
    assert_cheap(explainer.fewest(undone(ann, lambda: ann.rows(statement))))


AMONG_MANY: dict[str, str] = {
    "send a duplicate": "select pgqueue.send('q', '1', message_id => 'id 5000', negate_duplicate => true)",
    "send what is new": "select pgqueue.send('q', '1', message_id => 'new')",
    "send a batch": "select pgqueue.send_batch('q', array['1', '1']::jsonb[], message_ids => '{{id 9999,new}}')",
    "schedule": "select pgqueue.schedule('q', '1', pgqueue.clock() + interval '1 hour')",
    "cancel_scheduled": "select pgqueue.cancel_scheduled('q', array[{scheduled}, {scheduled} + 9000])",
    "receive_deferred": "select from pgqueue.receive_deferred('q', array[{deferred}, {deferred} + 9000])",
    "receive a dead letter": "select from pgqueue.receive('q/$deadletterqueue', 10)",
    "receive and delete a dead letter": "select from pgqueue.receive_and_delete('q/$deadletterqueue', 10)",
    "peek": "select from pgqueue.peek('q', 10, {scheduled} + 5000)",
    "peek at dead letters": "select from pgqueue.peek('q/$deadletterqueue', 10, {dead} + 1000)",
    "purge dead letters": "select pgqueue.purge_queue('q/$deadletterqueue', 10)",
    "resubmit": "select pgqueue.resubmit('q', max_messages => 10, after => {dead} + 1000)",
    "record_effect": "select pgqueue.record_effect('q', 'id 5000')",
    "recorded_effects": "select from pgqueue.recorded_effects('q', 'id 5000')",
    "sweep of nothing": "select from pgqueue.sweep(10)",
    "sweep without doing anything": "select from pgqueue.sweep(dry_run => true)",
    "take_turn": "select pgqueue.take_turn('q')",
}


@pytest.fixture(scope="module")
def set_aside_queue(database_server: SharedServer) -> Iterator[tuple[Stage, dict[str, int]]]:
    """A queue in which most messages are not ready, for tests that undo what they do, and what `set_aside` returned."""
    settings = {"requires_duplicate_detection": True, "max_queue_length": 1_000_000}
    with database_server.database(database_server.template) as database, Stage(database, **settings) as stage:
        places = set_aside(stage, stage.prompter)
        stage.prompter.send("so that the length is known")
        yield stage, places


@pytest.mark.parametrize("statement", AMONG_MANY.values(), ids=AMONG_MANY)
def test_a_verb_reads_a_few_pages_of_what_is_scheduled_deferred_dead_or_remembered(
    set_aside_queue: tuple[Stage, dict[str, int]], statement: str
) -> None:
    stage, places = set_aside_queue
    explainer = Explainer(stage.session("ann"))
    ann = explainer.session
    plans = explainer.fewest(undone(ann, lambda: ann.rows(statement.format(**places))))
    assert_cheap(plans, COUNTED_PAGES if ".sen" in statement or ".schedule" in statement else FEW_PAGES)


@pytest.mark.parametrize("verb", ["complete", "abandon", "renew_lock", "pin"])
def test_the_settlement_of_a_dead_letter_reads_a_few_pages_of_many(database: Database, verb: str) -> None:
    with Stage(database) as stage:
        explainer = Explainer(stage.session("ann"))
        ann = explainer.session
        set_aside(stage, ann)
        (received,) = ann.receive(queue=DEAD)
        assert_cheap(explainer.plans(lambda: ann.settle(verb, received, queue=DEAD)))


def test_a_sweep_finds_what_has_expired_by_its_index_and_reads_nothing_else(database: Database) -> None:
    with Stage(database) as stage:
        explainer = Explainer(stage.session("ann"))
        ann = explainer.session
        set_aside(stage, ann)
        ann.send("mortal", time_to_live=SECOND)
        stage.passes(SECOND)
        plans = explainer.plans(lambda: ann.table("sweep", max_messages=10))
        (search,) = (plan for plan in plans if "order by expires_at" in plan.text)
        assert search.indexes == {"message_expiry"}
        assert search.kinds.isdisjoint({"Sort", "Seq Scan"})
        assert_cheap(plans)
        foreseen = explainer.plans(lambda: ann.table("sweep", dry_run=True))
        assert "message_expiry" in {index for plan in foreseen for index in plan.indexes}
        assert_cheap(foreseen)


def test_a_sweep_of_ids_and_effects_reads_what_it_forgets(database: Database) -> None:
    with Stage(database, requires_duplicate_detection=True) as stage:
        explainer = Explainer(stage.session("ann"))
        ann = explainer.session
        set_aside(stage, ann)
        stage.passes(LOCK_DURATION * 11)
        plans = explainer.plans(lambda: ann.table("sweep", max_messages=10))
        assert {"sent_message_id_age", "recorded_effect_age"} <= {index for plan in plans for index in plan.indexes}
        assert_cheap(plans)


def test_a_long_queue_is_not_counted_at_every_send(database: Database) -> None:
    with Stage(database, max_queue_length=30_000) as stage:
        explainer = Explainer(stage.session("ann"))
        ann = explainer.session
        large(ann)
        ann.send("counted")
        assert_cheap(explainer.fewest(lambda: ann.send("not counted")))


def test_a_turn_reads_a_few_pages_of_a_large_queue_and_what_it_moves(database: Database) -> None:
    with Stage(database) as stage:
        explainer = Explainer(stage.session("ann"))
        ann = explainer.session
        large(ann)
        bury_and_put_off(ann)
        ann.receive(20, lock_duration=SECOND)
        for _ in range(3):
            stage.passes(2 * SECOND)
            assert_cheap(explainer.plans(lambda: ann.call("take_turn", queue="q")), pages=2 * FEW_PAGES)
        assert ann.value("select count(*) from pgqueue.message where lane = 0") == 20


def test_a_turn_looks_up_each_message_that_it_watches_in_a_database_that_was_never_analyzed(database: Database) -> None:
    with Stage(database) as stage:
        explainer = Explainer(stage.session("ann"))
        ann = explainer.session
        ann.send_many(6_000)
        for _ in range(12):
            ann.receive(500)
        stage.passes(2 * SECOND)
        ann.call("take_turn", queue="q")
        assert ann.value("select count(*) from pgqueue.watch") == 5_000
        stage.passes(2 * SECOND)
        plans = explainer.plans(lambda: ann.call("take_turn", queue="q"))
        assert ann.value("select count(*) from pgqueue.watch") == 6_000
        assert max(plan.pages for plan in plans) < 10 * 1_000


def test_a_claim_starts_where_the_cursor_is_and_not_at_the_front(database: Database) -> None:
    with Stage(database) as stage:
        explainer = Explainer(stage.session("ann"))
        ann = explainer.session
        large(ann)
        ann.receive(15_000, lock_duration=LOCK_DURATION * 60)
        for _ in range(5):
            stage.passes(2 * SECOND)
            ann.receive()
        assert_cheap(explainer.fewest(lambda: ann.receive(10)))
        newcomer = Explainer(stage.session("bob"))
        assert_cheap(newcomer.fewest(lambda: newcomer.session.receive(10)))


INLINED = {
    "_as_received": "select (pgqueue._as_received(message, null)).* from pgqueue.message",
    "_dead_letter_as_received": "select (pgqueue._dead_letter_as_received(dead_letter)).* from pgqueue.dead_letter",
    "_is_deferred": "select from pgqueue.message where pgqueue._is_deferred(lane)",
}


@pytest.mark.parametrize("function", INLINED)
def test_a_conversion_is_inlined_and_costs_no_call(database: Database, function: str) -> None:
    with database.connect() as connection:
        plan = connection.execute(f"explain (verbose) {INLINED[function]}".encode()).fetchall()
    assert function not in str(plan)


def test_a_claim_touches_no_index(database: Database) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        bodies = [Jsonb("x" * 200) for _ in range(1000)]
        ann.rows("select pgqueue.send_batch('q', %(bodies)s)", bodies=bodies)
        ann.begin()
        ann.receive(500)
        hot_updates = ann.value("select pg_stat_get_xact_tuples_hot_updated('pgqueue.message'::regclass)")
        ann.commit()
        assert hot_updates == 500


def undone(session: Session, step: Callable[[], object]) -> Callable[[], None]:
    """The step, rolled back: it leaves the queue as it was, for other tests."""

    def step_and_rollback() -> None:
        session.begin()
        try:
            step()
        finally:
            session.rollback()

    return step_and_rollback


def bury_and_put_off(session: Session) -> None:
    """Two thousand dead letters and as many scheduled messages, for the verbs that look at those."""
    session.settle_batch("dead_letter_batch", session.receive(2000), reason="r")
    session.settle_batch("abandon_batch", session.receive(2000), delay=LOCK_DURATION * 60)
    session.rows("vacuum (analyze) pgqueue.message, pgqueue.dead_letter, pgqueue.scheduled_message")


def set_aside(stage: Stage, session: Session) -> dict[str, int]:
    """Ten thousand scheduled, ten thousand deferred, ten thousand that will expire, two thousand dead letters, ten
    thousand ids and effects. Returns the first numbers of each kind."""
    session.rows("select pgqueue.send_batch('q', array_agg('1'::jsonb)) from generate_series(1, 2000)")
    (dead, *_) = messages = session.receive(2000)
    session.settle_batch("dead_letter_batch", messages, reason="r")
    session.rows("select pgqueue.send_batch('q', array_agg('1'::jsonb)) from generate_series(1, 10000)")
    (deferred, *_) = messages = session.receive(10_000)
    session.settle_batch("defer_batch", messages)
    (scheduled, *_) = session.values(
        "select pgqueue.send_batch('q', array_agg('1'::jsonb), scheduled_enqueue_times =>"
        " array_agg(pgqueue.clock() + interval '1 hour')) from generate_series(1, 10000)"
    )
    session.rows(
        "select pgqueue.send_batch('q', array_agg('1'::jsonb), times_to_live => array_agg(interval '1 day'),"
        " priorities => array_agg(1)) from generate_series(1, 10000)"
    )
    source = stage.prompter.value("select id from pgqueue.queue where name = 'q'")
    session.rows(
        "insert into pgqueue.sent_message_id"
        " select %(id)s, 'id ' || n, n, pgqueue.clock() from generate_series(1, 10000) n",
        id=source,
    )
    session.rows(
        "insert into pgqueue.recorded_effect (queue_id, message_id, effect, recorded_at, forget_at)"
        " select %(id)s, 'id ' || n, '', pgqueue.clock(), pgqueue.clock() + interval '1 hour'"
        " from generate_series(1, 10000) n",
        id=source,
    )
    session.rows("vacuum (analyze) pgqueue.message, pgqueue.dead_letter, pgqueue.scheduled_message")
    return {"dead": dead.sequence_number, "deferred": deferred.sequence_number, "scheduled": scheduled}


def assert_cheap(plans: list[Plan], pages: int = FEW_PAGES) -> None:
    assert plans
    for plan in plans:
        assert plan.pages <= pages, f"{plan.pages} pages: {plan.text}\n{json.dumps(plan.root, indent=1)}"


OF_A_CLAIM = """
select {} from pgqueue._claimed_message
 where consumer = 'ledger' and claim = 1 and number >= %(low)s and number < %(high)s
"""
BIG = "to_jsonb((select string_agg(md5(random()::text || n || part), '') from generate_series(1, 200) as part))"


@pytest.mark.parametrize(
    "fill",
    [nothing, tiny, large, large_but_never_analysed, large_but_analysed_when_empty],
    ids=lambda fill: fill.__name__,
)
def test_a_share_of_a_claim_is_read_by_indexes_and_no_body_that_is_not_asked_for(
    database: Database, fill: Callable[[Session], None]
) -> None:
    with Stage(database) as stage:
        ann = stage.session("ann")
        ann.rows(f"select pgqueue.send_batch('q', array(select {BIG} from generate_series(1, 400) as n))")
        fill(ann)
        ((_, epoch),) = ann.table("attach_consumer", consumer="ledger", queue="q")
        ann.call("claim_batch", consumer="ledger", after=0, max_messages=400, epoch=epoch)
        low = ann.value("select lower(fresh) from pgqueue._claim")
        explainer = Explainer(stage.session("bob"))
        explainer.session.rows("set enable_seqscan = off; set enable_bitmapscan = off")  # as tasks do

        def read(columns: str) -> Plan:
            query = OF_A_CLAIM.format(columns)
            plans = explainer.plans(lambda: explainer.session.rows(query, low=low, high=low + 200))
            (plan,) = (plan for plan in plans if "_claimed_message" in plan.text)
            return plan

        numbers, bodies = read("sequence_number"), read("length(body::text)")
        assert numbers.indexes == {"claim_pkey", "consumer_pkey", "queue_pkey", "message_pkey", "returned_message"}
        assert not numbers.kinds & {"Seq Scan", "Sort", "Hash Join", "Merge Join"}
        assert_cheap([numbers])
        assert bodies.root["Shared Hit Blocks"] > numbers.root["Shared Hit Blocks"] + 400
