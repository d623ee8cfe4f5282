"""Queues: messages that wait without receivers, and remains that were not swept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import LiteralString

from pgqueue.doctor.check import Check, Finding, Row


def missing_workers(rows: Sequence[Row]) -> Iterator[Finding]:
    """Find workers whose heartbeat stopped without a deregistration."""
    for row in rows:
        yield Finding(
            what=f"The worker {row.name} of {_some(row.queues)} is missing: it was killed, hangs, or cannot reach the"
            " database.",
            cost=f"No other worker serves {_some(row.unserved)}." if row.unserved else "Others serve its queues.",
            mend=f"pgqueue worker MODULE:HANDLER {' '.join(row.unserved)}" if row.unserved else row.mend,
            since=row.seen_at,
        )


def _some(queues: Sequence[str]) -> str:
    return f"{', '.join(queues[:3])}{' …' if queues[3:] else ''}"


#: The command after which a queue has receivers.
REMEDY: LiteralString = """
           case when status in ('DISABLED', 'RECEIVE_DISABLED')
                then format('pgqueue queue update %%s --status ACTIVE', queue)
                when paused_at is not null then format('pgqueue queue resume %%s', queue)
                else format('pgqueue worker MODULE:HANDLER %%s', coalesce(forward_to, queue)) end as mend"""

NO_RECEIVERS = Check(
    "no-receivers",
    f"""
    with upkeep as materialized (                    -- otherwise each condition would look up the first message again
        select queue, status, paused_at, forward_to, awaited_until, held_until,
               least(waiting_since, next_scheduled) as waiting_since,
               case when status in ('DISABLED', 'RECEIVE_DISABLED') then updated_at
                    else coalesce(paused_at, last_turn) end as stopped_at
          from pgqueue._upkeep
    )
    select queue, greatest(waiting_since, stopped_at) as since,
           case when status in ('DISABLED', 'RECEIVE_DISABLED') then format('has the status %%s', status)
                when paused_at is not null then 'is paused'
                when forward_to is not null then format('forwards to queue %%s, which has no receivers', forward_to)
                else 'has no receivers' end as obstacle,{REMEDY}
      from upkeep
     where waiting_since is not null
       and greatest(waiting_since, stopped_at) < pgqueue.clock() - %(unattended)s::interval
       and (awaited_until is null or awaited_until < pgqueue.clock())
       and (held_until is null or held_until < pgqueue.clock())
     order by waiting_since
    """,
    "Queue {row.queue} {row.obstacle}.",
    "Its messages wait, or expire.",
    "{row.mend}",
)

EXPIRED_LOCKS = Check(
    "expired-locks",
    f"""
    select queue, first_locked_until as since,{REMEDY}
      from pgqueue._upkeep
     where first_locked_until < pgqueue.clock() - %(unattended)s::interval
     order by first_locked_until
    """,
    "In queue {row.queue} locks have expired, and there is no receiver for these messages.",
    "Their holder has died or hangs. They wait, with all others of the queue.",
    "{row.mend}",
)

MISSING_WORKERS = Check(
    "missing-worker",
    """
    select name, queues, seen_at, format('select pgqueue.remove_worker(%%L);', id) as mend,
           array(select unnest(queues)
                 except
                 select unnest(other.queues) from pgqueue.workers as other where other.state = 'SERVING'
                 order by 1) as unserved
      from pgqueue.workers
     where (select pgqueue._check_counts()) and seen_at < pgqueue.clock() - %(unattended)s::interval
     order by seen_at
    """,
    judge=missing_workers,
)

DEAD_LETTERS = Check(
    "dead-letters",
    """
    select queue, count(*) as messages,              -- of each queue at most a hundred are seen, whatever their number
           case when count(*) < 100 then min(at) end as since,
           case when count(*) < 100 then '' else ' or more' end as bound
      from pgqueue._upkeep
     cross join unnest(last_dead_letters) as at
     where at > pgqueue.clock() - interval '1 hour'
     group by queue
    having count(*) >= %(dead_letters_an_hour)s
     order by messages desc, queue
    """,
    "Queue {row.queue} has {row.messages:,}{row.bound} new dead letters within an hour.",
    "They are not received any more until they are resubmitted. Repair the handler first.",
    "pgqueue dead-letters list {row.queue}",
)

FULL_QUEUES = Check(
    "full-queue",
    """
    with bounded as (
        select name, max_queue_length, ready + locked + deferred + expired + exhausted + scheduled as about, is_exact
          from pgqueue.queue_settings()
          join pgqueue.queue_estimates() using (name)
         where (select pgqueue._check_counts()) and max_queue_length is not null)
    select name as queue, max_queue_length, 2 * max_queue_length as twice, messages
      from bounded
     cross join lateral (
           select about as messages                          -- to count a million messages takes two seconds
            where max_queue_length > 1000000
            union all
           select ready + locked + deferred + expired + exhausted + scheduled
             from pgqueue.queue_counts(name)
            where max_queue_length <= 1000000 and (not is_exact or max_queue_length <= about)) as counted
     where max_queue_length <= messages
     order by max_queue_length, queue
    """,
    "Queue {row.queue} is full: it holds {row.messages:,} messages, and {row.max_queue_length:,} are allowed.",
    "Senders are refused. Receivers make room, or a higher bound does.",
    "pgqueue queue update {row.queue} --max-queue-length {row.twice}",
)

LATE_SCHEDULES = Check(
    "late-schedule",
    """
    select queue, next_due as since
      from pgqueue._upkeep
     where next_due < pgqueue.clock() - %(unattended)s::interval
     order by next_due
    """,
    "A schedule of queue {row.queue} was due, or its due times were to be computed, and no worker does it.",
    "Its messages are not sent; once they are due, `catch_up` decides which of them follow later.",
    "pgqueue sweep",
)

FAILING_SCHEDULES = Check(
    "failing-schedule",
    """
    select queue, name, last_error
      from pgqueue._upkeep
     cross join jsonb_each_text(schedule_errors) as failing (name, last_error)
     order by queue, name
    """,
    "Schedule {row.name} of queue {row.queue} fails: {row.last_error}.",
    "Its messages are not sent.",
    "pgqueue schedule show {row.name}",
)

OPEN_BATCHES = Check(
    "open-batch",
    """
    select id, queue, pending, created_at as since
      from pgqueue.batches
     where closed_at is null and created_at < pgqueue.clock() - %(open_batch)s::interval
     order by created_at
    """,
    "Batch {row.id}, whose end sends a message to queue {row.queue}, was never closed.",
    "The message is not sent, although {row.pending:,} members are pending.",
    "pgqueue batch close {row.id}",
)

UNSWEPT_RECORDS = Check(
    "unswept-records",
    """
    select count(*) as queues, case count(*) when 1 then '' else 's' end as plural,
           (array_agg(queue order by forget_at))[1] as queue, min(forget_at) as since
      from pgqueue._upkeep
     where forget_at < pgqueue.clock() - %(unswept)s
    having count(*) > 0
    """,
    "{row.queues:,} queue{row.plural}, {row.queue} for one, should have forgotten message ids or effects: there"
    " was no sweep.",
    "They take space. Queues without receivers show locks and times that are over, too.",
    "pgqueue sweep",
)

UNSWEPT_HISTORY = Check(
    "unswept-history",
    """
    select count(*) as days, case count(*) when 1 then '' else 's' end as plural,
           sum(pg_relation_size(pg_class.oid)) / 2 ^ 20 as megabytes, min(over_at) as since
      from (select (extract(epoch from pgqueue.clock())::bigint / 86400)::integer as today,
                   1 + ceil(coalesce(max(extract(epoch from retain_history)), 0) / 86400)::integer as days
              from pgqueue._upkeep) as kept
     cross join generate_series(today - 63, today - days) as day
     cross join lateral (select to_timestamp(day * 86400.0) + days * interval '1 day' as over_at) as retained
      join pg_class on relname = format('settled_message_%%s', lpad((day %% 64)::text, 2, '0'))
       and relnamespace = (select to_regnamespace('pgqueue_history')::oid)
     where pg_relation_size(pg_class.oid) > 0 and over_at < pgqueue.clock() - %(unswept)s
    having count(*) > 0
    """,
    "{row.days:,} day{row.plural} of history, {row.megabytes:,.1f} MB, that no queue retains: there was no sweep.",
    "They take space, and after 64 days a new day begins in the partition of an old one.",
    "pgqueue sweep",
)

INVARIANTS = Check(
    "broken-invariants",
    "select broken from pgqueue.broken_invariants() as broken",
    "A rule is broken: {row.broken}.",
    "A message may be lost or received late. The tables were changed by hand, or pgqueue has a bug.",
    "pgqueue sweep --thorough",
)
