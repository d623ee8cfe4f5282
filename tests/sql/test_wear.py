"""Nothing wears out: what a verb or a view reads is bounded by what it returns, not by the rows that died before.

While a transaction holds a snapshot, dead rows and their index entries stay. Each table gets many of them here, behind
a held snapshot. Then each verb, each view's first page and each internal function that the client calls is run in five
states of the planner's statistics, and the pages that its scans read are counted. Autovacuum is off. An exception that
is no longer needed fails, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

import pgqueue
from tests.patience import eventually
from tests.quiet import QuietServer
from tests.sql.stage import SECOND, Stage
from tests.sql.test_plans import Explainer, Plan
from tests.sql.wear import DEAD_ROWS, TURN_OFF, Worn, fill

#: The pages that a statement may read: at all, for each queue, and for each row returned. Dead rows fill far more.
FEW_PAGES = 200
FEW_PAGES_OF_A_QUEUE = 100
PAGES_A_ROW = 10

#: Statistics of the tables for the planner. They only change the catalogue, so their order does not matter.
BELIEVED = """
update pg_class set reltuples = {}, relpages = {}
 where relnamespace = 'pgqueue'::regnamespace and relkind in ('r', 'i') and oid <> 'pgqueue.queue'::regclass
"""
STATISTICS = {
    "never analyzed": BELIEVED.format(-1, 0),
    "analyzed when empty": BELIEVED.format(0, 0),
    "vacuumed when empty": BELIEVED.format(0, 1),
    "a few in many pages": BELIEVED.format(3, "pg_relation_size(oid) / 8192"),
    "analyzed when full": BELIEVED.format(DEAD_ROWS * 10, "pg_relation_size(oid) / 8192"),
}

#: Tables in which no verb makes many dead rows: settings, names, and rows that are rewritten rather than deleted.
SPARED = {
    "alembic_version",
    "audited_action",
    "claim",
    "consumer",
    "dropped_queue",
    "flow",
    "forwarding_change",
    "forwarding_target",
    "front",
    "gateway_key",
    "installation",
    "progress",
    "publishing_lock",
    "queue",
    "queue_use",
    "rule",
    "registered_worker",
    "repair_lock",
    "sample",
    "sample_lock",
    "schedule",
    "secret",
    "slot",
    "staged_batch",
    "subscription",
    "sweep_lock",
    "sweep_progress",
    "topic",
    "waiting_consumer",
}

#: Of a verb or internal function, by what it does; the placeholders are in `Worn`.
STATEMENTS = {
    "send": "select pgqueue.send('q', '1')",
    "send to a bounded queue": "select pgqueue.send('bounded', '1')",
    "send with an id": "select pgqueue.send('distinct', '1', message_id => 'new')",
    "send to a session": "select pgqueue.send('sessions', '1', session_id => 'new')",
    "send to a group": "select pgqueue.send('fair', '1', session_id => 'long')",
    "send to a group with limits": "select pgqueue.send('grouped', '1', session_id => 'long')",
    "send_batch": "select pgqueue.send_batch('q', '{{1,2}}')",
    "schedule": "select pgqueue.schedule('q', '1', pgqueue.clock() + interval '1 hour')",
    "reschedule": "select pgqueue.reschedule('q', {scheduled}, pgqueue.clock() + interval '1 hour')",
    "cancel_scheduled": "select pgqueue.cancel_scheduled('q', array[{scheduled}::bigint])",
    "receive": "select from pgqueue.receive('q', 10)",
    "receive from an empty queue": "select from pgqueue.receive('empty', 10)",
    "receive from a limited queue": "select from pgqueue.receive('limited', 10)",
    "receive from groups": "select from pgqueue.receive('fair', 10)",
    "receive from groups with limits": "select sequence_number from pgqueue.receive('grouped', 10)",
    "receive dead letters": "select from pgqueue.receive('q/$deadletterqueue', 10)",
    "receive_dead_letters": "select from pgqueue.receive_dead_letters('q', 10)",
    "receive_and_delete": "select from pgqueue.receive_and_delete('q', 10)",
    "receive_deferred": "select from pgqueue.receive_deferred('q', array[{deferred}::bigint])",
    "take_turn": "select pgqueue.take_turn('q')",
    "take_turn of an empty queue": "select pgqueue.take_turn('empty')",
    "take_turn of a queue that watched its messages": "select pgqueue.take_turn('watched')",
    "_due_in": "select pgqueue._due_in('q')",
    "_due_in of an empty queue": "select pgqueue._due_in('empty')",
    "_due_in of a limited queue": "select pgqueue._due_in('limited')",
    "_due_in of a fair queue": "select pgqueue._due_in('fair')",
    "_newest_number": "select pgqueue._newest_number('q')",
    "_subscribe": "select from pgqueue._subscribe('{{q}}', interval '1 minute')",
    "complete": "select pgqueue.complete('q', {number}, '{token}')",
    "complete_batch": "select from pgqueue.complete_batch('q', '{numbers}', '{tokens}')",
    "abandon": "select pgqueue.abandon('q', {number}, '{token}')",
    "abandon with a delay": "select pgqueue.abandon('q', {number}, '{token}', interval '1 hour')",
    "abandon_batch": "select from pgqueue.abandon_batch('q', '{numbers}', '{tokens}')",
    "release_batch": "select from pgqueue.release_batch('q', '{numbers}', '{tokens}')",
    "postpone": "select pgqueue.postpone('q', {number}, '{token}', interval '1 hour')",
    "dead_letter": "select pgqueue.dead_letter('q', {number}, '{token}', 'r')",
    "dead_letter_batch": "select from pgqueue.dead_letter_batch('q', '{numbers}', '{tokens}', 'r')",
    "defer": "select pgqueue.defer('q', {number}, '{token}')",
    "defer_batch": "select from pgqueue.defer_batch('q', '{numbers}', '{tokens}')",
    "pin": "select pgqueue.pin('q', {number}, '{token}')",
    "_pin_delivery": "select pgqueue._pin_delivery('q', {number}, '{token}', true)",
    "_complete_delivery": "select pgqueue._complete_delivery('q', {number}, '{token}', pg_current_xact_id())",
    "pin_batch": "select from pgqueue.pin_batch('q', '{numbers}', '{tokens}')",
    "renew_lock": "select pgqueue.renew_lock('q', {number}, '{token}')",
    "renew_lock_batch": "select from pgqueue.renew_lock_batch('q', '{numbers}', '{tokens}')",
    "resolve": "select pgqueue.resolve('q', {number}, '{token}', pg_current_xact_id())",
    "unlock": "select pgqueue.unlock('q', {number})",
    "peek": "select from pgqueue.peek('q', 10)",
    "peek from a number": "select from pgqueue.peek('q', 10, {number})",
    "peek at what came back": "select from pgqueue.peek('returned', 10)",
    "peek dead letters": "select from pgqueue.peek('q/$deadletterqueue', 10)",
    "peek_dead_letters": "select from pgqueue.peek_dead_letters('q', 10)",
    "find_messages": "select from pgqueue.find_messages('q')",
    "find_messages that are ready": "select from pgqueue.find_messages('q', 'READY')",
    "find_messages that are scheduled": "select from pgqueue.find_messages('q', 'SCHEDULED')",
    "find_messages that came back": "select from pgqueue.find_messages('returned')",
    "find_messages that are dead letters": "select from pgqueue.find_messages('q', 'DEAD_LETTERED')",
    "delete_messages": "select pgqueue.delete_messages('q', array[{number}, {deferred}, {scheduled}]::bigint[])",
    "delete_matching": "select pgqueue.delete_matching('q', max_messages => 10)",
    "delete_matching that are scheduled": "select pgqueue.delete_matching('q', 'SCHEDULED')",
    "delete_matching that came back": "select pgqueue.delete_matching('returned', subject => 'none')",
    "delete_matching of a session": "select pgqueue.delete_matching('sessions', session_id => 'long')",
    "create_batch": "select pgqueue.create_batch('q', {held})",
    "add_to_batch": "select pgqueue.add_to_batch('{batch}', 'q', array[{deferred}, {scheduled}]::bigint[])",
    "close_batch": "select pgqueue.close_batch('{batch}')",
    "batch_end": "select pgqueue.batch_end()",
    "batch_counts": "select from pgqueue.batch_counts('{batch}')",
    "cancel": "select pgqueue.cancel('q', {number})",
    "cancel with a reason": "select pgqueue.cancel('q', {number}, 'r')",
    "cancel a scheduled one": "select pgqueue.cancel('q', {scheduled}, 'r')",
    "move_messages": "select pgqueue.move_messages('q', array[{deferred}, {scheduled}]::bigint[], 'returned')",
    "explain_message": "select pgqueue.explain_message('q', {number})",
    "resubmit": "select pgqueue.resubmit('q', max_messages => 1)",
    "purge_queue": "select pgqueue.purge_queue('q', 1)",
    "purge_queue of dead letters": "select pgqueue.purge_queue('q/$deadletterqueue', 1)",
    "purge_dead_letters": "select pgqueue.purge_dead_letters('q', max_messages => 1)",
    "sweep": "select from pgqueue.sweep(10)",
    "sweep without doing anything": "select from pgqueue.sweep(dry_run => true)",
    "queue_counts": "select from pgqueue.queue_counts('q')",
    "queue_counts of a queue whose messages were completed": "select from pgqueue.queue_counts('bounded')",
    "queue_counts of all": "select from pgqueue.queue_counts()",
    "queue_estimates": "select from pgqueue.queue_estimates(10)",
    "queue_settings": "select from pgqueue.queue_settings()",
    "take_sample": "select pgqueue.take_sample()",
    "alter_queue": "select pgqueue.alter_queue('q', max_delivery_count => 3)",
    "pause_queue": "select pgqueue.pause_queue('q')",
    "resume_queue": "select pgqueue.resume_queue('q')",
    "set_group_limits": "select pgqueue.set_group_limits('grouped', 'long', 5)",
    "create_queue": "select pgqueue.create_queue('new')",
    "outcomes": "select from pgqueue.outcomes('distinct', '{{1, 2, 3}}')",
    "result": "select from pgqueue.result('distinct', 1)",
    "_await_outcomes": "select from pgqueue._await_outcomes('{{distinct}}', interval '1 minute')",
    "complete with a result": "select pgqueue.complete('distinct', {kept}, '{kept_token}', '1')",
    "record_effect": "select pgqueue.record_effect('distinct', 'new')",
    "recorded_effects": "select from pgqueue.recorded_effects('distinct', 'id 1')",
    "heartbeat of a worker that runs": "select pgqueue.heartbeat('{worker}', 'h', 1, '1', '{{q}}', 1)",
    "heartbeat": "select pgqueue.heartbeat(gen_random_uuid(), 'h', 1, '1', '{{q}}', 1)",
    "remove_worker": "select pgqueue.remove_worker('{worker}')",
    "accept_session": "select from pgqueue.accept_session('sessions')",
    "accept_session by its id": "select from pgqueue.accept_session('sessions', 'another')",
    "receive_from_session": "select from pgqueue.receive_from_session('sessions', 'long', '{session_token}', 10)",
    "receive_from_session_batch": "select from pgqueue.receive_from_session_batch('sessions', '{{long}}',"
    " '{{{session_token}}}', '{{10}}')",
    "renew_session_lock": "select pgqueue.renew_session_lock('sessions', 'long', '{session_token}')",
    "set_session_state": "select pgqueue.set_session_state('sessions', 'long', '{session_token}', '1')",
    "get_session_state": "select from pgqueue.get_session_state('sessions', 'long')",
    "peek_session": "select from pgqueue.peek_session('sessions', 'long', max_messages => 10)",
    "release_session": "select pgqueue.release_session('sessions', 'long', '{session_token}')",
    "release_session_batch": "select from pgqueue.release_session_batch('sessions', '{{long}}', '{{{session_token}}}')",
    "attach_consumer": "select from pgqueue.attach_consumer('new', 'q')",
    "begin_claim": "select pgqueue.begin_claim('c', 1, epoch => {epoch})",
    "claim_batch": "select pgqueue.claim_batch('c', 0, 10, epoch => {epoch})",
    "check_claim": "select pgqueue.check_claim('c', 1, {epoch})",
    "complete_claim": "select pgqueue.complete_claim('c', 1, epoch => {epoch})",
    "release_claim": "select pgqueue.release_claim('c', 1, epoch => {epoch})",
    "renew_claim": "select pgqueue.renew_claim('c', claim => 1, epoch => {epoch})",
    "drop_consumer": "select pgqueue.drop_consumer('spare', {spare_epoch})",
    "stage": "select pgqueue.stage('q', 'job', 'part', '{{body}}')",
    "discard_staged": "select pgqueue.discard_staged('job')",
    "publish": "select from pgqueue.publish('distinct', '{{}}', 0, 'publisher', 1)",
    "publish_to_topic": "select from pgqueue.publish_to_topic('topic', '1')",
    "send_to_topic": "select from pgqueue.send_to_topic('topic', '{{1,2}}')",
    "cancel_on_topic": "select pgqueue.cancel_on_topic('topic', array(select sequence_number"
    " from pgqueue.send_to_topic('topic', '{{1}}', scheduled_enqueue_times => array[pgqueue.clock() + interval '1 h']"
    ")))",
    "publish_batch_to_topic": "select from pgqueue.publish_batch_to_topic('topic', '{{1,2}}')",
    "record_action": "select pgqueue.record_action('PURGE', 'q')",
    "create_schedule": "select pgqueue.create_schedule('new', 'q', every => '1 hour', body => '1')",
    "run_schedule": "select pgqueue.run_schedule('hourly')",
    "schedules_to_plan": "select from pgqueue.schedules_to_plan()",
}

NO_ROWS = "reads no rows that die in numbers: names, settings and grants"
#: Functions without a statement above, and why.
UNTRIED = dict.fromkeys(
    [
        "_sequences_behind",  # the doctor's: reads the highest number of each queue
        "alter_rule",
        "alter_subscription",
        "alter_topic",
        "clock",
        "create_gateway_key",
        "create_rule",
        "create_subscription",
        "create_topic",
        "drop_gateway_key",
        "drop_schedule",
        "drop_subscription",
        "drop_topic",
        "drop_rule",
        "due_times",
        "gateway_keys",
        "grant_admin",
        "grant_monitor",
        "grant_receive",
        "grant_send",
        "grants",
        "pause_schedule",
        "plan_schedule",
        "resume_schedule",
        "revoke_admin",
        "revoke_monitor",
        "revoke_receive",
        "revoke_send",
        "_check_counts",
        "_check_reader",
        "_claim_plan",
        "_is_deferred",
        "_next_xid",
        "_priority",
        "_refuse_transaction",
        "queues_to_sweep",
        "server_run",
        "topic_settings",
        "_settling_xid",
    ],
    NO_ROWS,
) | {
    "broken_invariants": "reads everything by design: for tests and after a restore",
    "sweep_all": "calls sweep, and commits",
    "drop_queue": "deletes all that the queue has",
    "check_staged": "counts a staged table, which is dropped when it was published",
}


@dataclass(frozen=True)
class Wearing:
    """Why a statement reads what has died, and with which statistics: with the others it must not."""

    reason: str
    states: frozenset[str] = frozenset(STATISTICS)


BY_PLACE = "reads a table by its pages, for the tasks of Spark"
SESSION = "looks for the sessions of a queue by their names, in which they come in no order"
LANE = "begins at the first message that the queues with sessions or groups ever had, which have no common cursor"
ERRORS = "begins at the first message that has failed, in the order of numbers"
WATCHED = "begins at the first entry of the watch list"
FEW_ROWS = frozenset({"vacuumed when empty", "a few in many pages"})
WEARING = {
    "delete_matching of a session": Wearing("reads the messages of all sessions, in the order of their positions"),
    "queue_counts": Wearing(SESSION),
    "queue_counts of all": Wearing(SESSION),
    "queue_estimates": Wearing(SESSION),
    "take_sample": Wearing(SESSION),
    "view queues": Wearing(SESSION),
    "view _held_message": Wearing(f"{SESSION}; {WATCHED}"),
    "view locked_messages": Wearing(f"{SESSION}; {WATCHED}"),
    "view expired_locks": Wearing(f"{SESSION}; {WATCHED}"),
    "view delivery_log": Wearing(ERRORS),
    "view messages": Wearing(LANE),
    "view notifications": Wearing("begins at the first messages of each queue, to see whether they are notifications"),
    "sweep": Wearing(WATCHED),
    "sweep without doing anything": Wearing(WATCHED),
    "view _upkeep": Wearing(f"{SESSION}; {WATCHED}"),
    "view _message": Wearing(BY_PLACE),
    "view _dead_letter": Wearing(BY_PLACE),
    "view _scheduled_message": Wearing(BY_PLACE),
    "view _claimed_message": Wearing(BY_PLACE),
    "view _published_batch": Wearing(BY_PLACE),
    "view sessions": Wearing(SESSION),
    "view groups": Wearing(SESSION),
    "view scheduled_on_topics": Wearing("reads all that is scheduled on topics", frozenset(STATISTICS) - FEW_ROWS),
    "view batches": Wearing("reads all batches, which are deleted a day after their end"),
    "view unique_keys": Wearing("reads the keys of a queue in their order; the sweeper deletes those that are free"),
}

#: Statements that look up rows by `= any`, alone or in a helper. Before PostgreSQL 17 that is no condition of an
#: index if one row is expected, and they read the lane.
BEFORE_17 = {
    "abandon with a delay", "abandon_batch", "add_to_batch", "begin_claim", "cancel_on_topic", "claim_batch",
    "complete_batch", "complete_claim", "dead_letter", "dead_letter_batch", "defer", "defer_batch", "explain_message",
    "pin_batch", "postpone", "release_batch", "release_claim", "renew_claim", "renew_lock", "renew_lock_batch",
    "resolve", "unlock", "view consumers",
}  # fmt: skip

#: Statements that read something of each queue.
OF_EACH_QUEUE = {
    "queue_counts of all",
    "queue_estimates",
    "take_sample",
    "sweep",
    "sweep without doing anything",
    "view _upkeep",
    "view notifications",
    "view queues",
}


SLOW_ANY = "before PostgreSQL 17 `= any` is no condition of an index where one row is expected"


@pytest.fixture(scope="module")
def worn(quiet_server: QuietServer) -> Iterator[Worn]:
    with quiet_server.database() as database, Stage(database) as stage, psycopg.connect(database.dsn) as holder:
        stage.prompter.rows(TURN_OFF)
        stage.prompter.rows(
            f"alter database {database.name} set synchronize_seqscans = off"
        )  # each begins at the first page
        holder.execute("set transaction isolation level repeatable read; select")
        yield Worn(stage, fill(stage))
        stage.prompter.rows("analyze")  # with what the tests made the planner believe, the last check takes minutes


@pytest.fixture(scope="module", params=[*STATISTICS])
def believed(request: pytest.FixtureRequest, worn: Worn) -> tuple[Worn, str]:
    state: str = request.param
    prompter = worn.stage.prompter
    if state == "vacuumed when empty" and prompter.connection.info.server_version < 170000:
        pytest.skip(SLOW_ANY)
    prompter.rows(STATISTICS[state])
    return worn, state


def views() -> list[str]:
    return sorted(path.stem for path in (SQL / "views").glob("*.sql"))


SQL = Path(__file__).parents[2] / "sql"
PAGES_OF_VIEWS = {f"view {name}": f"select * from pgqueue.{name} limit 20" for name in views()}


def pages_allowed(worn: Worn, name: str) -> int:
    if name not in OF_EACH_QUEUE:
        return FEW_PAGES
    return FEW_PAGES_OF_A_QUEUE * int(worn.stage.prompter.value("select count(*) from pgqueue.queue"))


@pytest.mark.parametrize("name", [*STATEMENTS, *PAGES_OF_VIEWS])
def test_a_statement_does_not_read_what_has_died(believed: tuple[Worn, str], name: str) -> None:
    worn, state = believed
    if name in BEFORE_17 and worn.stage.prompter.connection.info.server_version < 170000:
        pytest.skip(SLOW_ANY)
    worn.stage.passes(2 * SECOND)
    explainer = Explainer(worn.stage.session("bob"))
    bob = explainer.session
    bob.begin()
    statement = worn.statement((STATEMENTS | PAGES_OF_VIEWS)[name], bob)
    returned: list[tuple[Any, ...]] = []
    plans = explainer.plans(lambda: returned.extend(bob.rows(statement)))
    bob.rollback()
    bob.connection.close()
    read, allowed = sum(plan.pages for plan in plans), pages_allowed(worn, name) + PAGES_A_ROW * len(returned)
    excepted = WEARING.get(name)
    if excepted and state in excepted.states:
        assert read > allowed, f"{name} reads {read} pages: it need not be excepted"
    else:
        assert read <= allowed, described(plans)


@pytest.mark.core
def test_an_exception_names_a_statement_and_its_statistics() -> None:
    assert WEARING.keys() <= (STATEMENTS | PAGES_OF_VIEWS).keys()
    assert all(wearing.reason and wearing.states <= STATISTICS.keys() for wearing in WEARING.values())


@pytest.mark.core
def test_a_session_that_receives_dead_letters_does_not_read_again_what_it_has_received(worn: Worn) -> None:
    explainer = Explainer(worn.stage.session("bob"))
    bob = explainer.session
    bob.begin()
    receive = "select sequence_number from pgqueue.receive_dead_letters('q')"
    assert len(bob.rows(receive)) == 1
    plans = explainer.plans(lambda: bob.rows(receive))
    bob.rollback()
    bob.connection.close()
    assert sum(plan.pages for plan in plans) <= FEW_PAGES, described(plans)


def described(plans: list[Plan]) -> str:
    return "\n".join(f"{plan.pages} pages: {' '.join(plan.text.split())}" for plan in plans if plan.pages)


@pytest.mark.core
def test_every_function_that_is_called_is_tried(worn: Worn) -> None:
    verbs = {path.stem for path in (SQL / "functions" / "verbs").glob("*.sql")}
    sources = Path(pgqueue.__file__).parent.rglob("*.py")
    internal = {name for path in sources for name in re.findall(r"pgqueue\.(_\w+)\(", path.read_text())}
    tried = {name for text in STATEMENTS.values() for name in re.findall(r"pgqueue\.(\w+)\(", text)}
    assert verbs | internal == tried - {"clock"} | UNTRIED.keys()


def test_every_table_has_dead_rows(worn: Worn) -> None:
    dead = """
        select relname, pg_stat_get_dead_tuples(oid) from pg_class
         where relnamespace = 'pgqueue'::regnamespace and relkind = 'r'"""

    def few() -> set[str]:
        return {table for table, rows in worn.stage.prompter.rows(dead) if rows < DEAD_ROWS // 2}

    eventually(lambda: few() == SPARED, "a table has no dead rows, or a spared one has")  # counts are reported late
