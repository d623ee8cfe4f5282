"""Queues: messages that wait without receivers, and remains that were not swept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgqueue.doctor import thresholds
from pgqueue.doctor.check import Check, Finding, Row, each

#: How many dead letters of a queue pgqueue._upkeep shows.
LATEST = 100

#: The statuses in which receives are refused.
CLOSED = ("DISABLED", "RECEIVE_DISABLED")


def no_receivers(rows: Sequence[Row]) -> Iterator[Finding]:
    """Find queues in which messages wait, without a lock and without a receive for a while."""
    for row in rows:
        stopped = row.updated_at if row.status in CLOSED else row.paused_at or row.last_turn
        since = max(filter(None, (row.waiting_since, stopped)))
        if row.now - since > thresholds.UNATTENDED:
            what, mend = _obstacle(row)
            yield Finding(
                what=f"Queue {row.queue} {what}.", cost="Its messages wait, or expire.", mend=mend, since=since
            )


def _obstacle(row: Row) -> tuple[str, str]:
    """Why there are no receives from a queue, and the command that fixes it."""
    if row.status in CLOSED:
        return f"has the status {row.status}", f"pgqueue queue update {row.queue} --status ACTIVE"
    if row.paused_at is not None:
        return "is paused", f"pgqueue queue resume {row.queue}"
    if row.forward_to is not None:
        what = f"forwards to queue {row.forward_to}, which has no receivers"
        return what, f"pgqueue worker MODULE:HANDLER {row.forward_to}"
    return "has no receivers", f"pgqueue worker MODULE:HANDLER {row.queue}"


def expired_locks(rows: Sequence[Row]) -> Iterator[Finding]:
    """Find queues with locks that expired a while ago, whose messages were not received again."""
    for row in rows:
        yield Finding(
            what=f"In queue {row.queue} locks have expired, and there is no receiver for these messages.",
            cost="Their holder has died or hangs. They wait, with all others of the queue.",
            mend=_obstacle(row)[1],
            since=row.first_locked_until,
        )


def missing_workers(rows: Sequence[Row]) -> Iterator[Finding]:
    """Find workers whose heartbeat stopped without a deregistration."""
    for row in rows:
        yield Finding(
            what=f"The worker {row.name} of {_some(row.queues)} is missing: it was killed, hangs, or cannot reach the"
            " database.",
            cost=f"No other worker serves {_some(row.unserved)}." if row.unserved else "Others serve its queues.",
            mend=f"pgqueue worker MODULE:HANDLER {' '.join(row.unserved)}"
            if row.unserved
            else f"select pgqueue.remove_worker('{row.id}');",
            since=row.seen_at,
        )


def dead_letters(rows: Sequence[Row]) -> Iterator[Finding]:
    """Find queues with many new dead letters."""
    for row in rows:
        if row.messages >= thresholds.DEAD_LETTERS_AN_HOUR:
            yield Finding(
                what=f"Queue {row.queue} has {row.messages:,}{' or more' if row.messages == LATEST else ''} new"
                " dead letters within an hour.",
                cost="They are not received any more until they are resubmitted. Repair the handler first.",
                mend=f"pgqueue dead-letters list {row.queue}",
                since=row.since if row.messages < LATEST else None,
            )


def unswept_records(rows: Sequence[Row]) -> Iterator[Finding]:
    """Find queues that remember message ids and the like for longer than they should."""
    late = [row for row in rows if row.now - row.forget_at > thresholds.UNSWEPT]
    if late:
        yield Finding(
            what=f"{_counted(late, 'queue')}, {late[0].queue} for one, should have forgotten message ids or effects:"
            " there was no sweep.",
            cost="They take space. Queues without receivers show locks and times that are over, too.",
            mend="pgqueue sweep",
            since=late[0].forget_at,
        )


def unswept_history(rows: Sequence[Row]) -> Iterator[Finding]:
    """Find days of history that no queue retains."""
    late = [row for row in rows if row.now - row.over_at > thresholds.UNSWEPT]
    if late:
        yield Finding(
            what=f"{_counted(late, 'day')} of history, {sum(row.size for row in late) / 2**20:,.1f} MB, that no queue"
            " retains: there was no sweep.",
            cost="They take space, and after 64 days a new day begins in the partition of an old one.",
            mend="pgqueue sweep",
            since=late[0].over_at,
        )


def _some(queues: Sequence[str]) -> str:
    return f"{', '.join(queues[:3])}{' …' if queues[3:] else ''}"


def _counted(rows: Sequence[Row], noun: str) -> str:
    return f"{len(rows):,} {noun}{'' if len(rows) == 1 else 's'}"


NO_RECEIVERS = Check(
    "no-receivers",
    """
    with upkeep as materialized (                    -- otherwise each condition would look up the first message again
        select queue, status, updated_at, paused_at, forward_to, awaited_until, held_until, last_turn,
               least(waiting_since, next_scheduled) as waiting_since
          from pgqueue._upkeep
    )
    select queue, status, updated_at, paused_at, forward_to, last_turn, waiting_since, pgqueue.clock() as now
      from upkeep
     where waiting_since < pgqueue.clock() - %(unattended)s::interval
       and (awaited_until is null or awaited_until < pgqueue.clock())
       and (held_until is null or held_until < pgqueue.clock())
     order by waiting_since
    """,
    no_receivers,
)

EXPIRED_LOCKS = Check(
    "expired-locks",
    """
    select queue, status, paused_at, forward_to, first_locked_until
      from pgqueue._upkeep
     where first_locked_until < pgqueue.clock() - %(unattended)s::interval
     order by first_locked_until
    """,
    expired_locks,
)

MISSING_WORKERS = Check(
    "missing-worker",
    """
    select id, name, queues, seen_at,
           array(select unnest(queues)
                 except
                 select unnest(other.queues) from pgqueue.workers as other where other.state = 'SERVING'
                 order by 1) as unserved
      from pgqueue.workers
     where (select pgqueue._check_counts()) and seen_at < pgqueue.clock() - %(unattended)s::interval
     order by seen_at
    """,
    missing_workers,
)

DEAD_LETTERS = Check(
    "dead-letters",
    """
    select queue, count(*) as messages, min(at) as since
      from pgqueue._upkeep
     cross join unnest(last_dead_letters) as at
     where at > pgqueue.clock() - interval '1 hour'
     group by queue
     order by messages desc, queue
    """,
    dead_letters,
)

FULL_QUEUES = Check(
    "full-queue",
    """
    select name as queue, max_queue_length, 2 * max_queue_length as twice, messages
      from pgqueue.queue_settings()
     cross join lateral (
           select ready + locked + deferred + expired + exhausted + scheduled as messages
             from pgqueue.queue_counts(name)) as counted
     where (select pgqueue._check_counts()) and max_queue_length is not null and max_queue_length <= messages
     order by max_queue_length, queue
    """,
    each(
        "Queue {row.queue} is full: it holds {row.messages:,} messages, and {row.max_queue_length:,} are allowed.",
        "Senders are refused. Receivers make room, or a higher bound does.",
        "pgqueue queue update {row.queue} --max-queue-length {row.twice}",
    ),
)

LATE_SCHEDULES = Check(
    "late-schedule",
    """
    select queue, next_due
      from pgqueue._upkeep
     where next_due < pgqueue.clock() - %(unattended)s::interval
     order by next_due
    """,
    each(
        "A schedule of queue {row.queue} was due, or its due times were to be computed, and no worker does it.",
        "Its messages are not sent; once they are due, `catch_up` decides which of them follow later.",
        "pgqueue sweep",
        since="next_due",
    ),
)

FAILING_SCHEDULES = Check(
    "failing-schedule",
    """
    select queue, name, last_error
      from pgqueue._upkeep
     cross join jsonb_each_text(schedule_errors) as failing (name, last_error)
     order by queue, name
    """,
    each(
        "Schedule {row.name} of queue {row.queue} fails: {row.last_error}.",
        "Its messages are not sent.",
        "pgqueue schedule show {row.name}",
    ),
)

UNSWEPT_RECORDS = Check(
    "unswept-records",
    """
    select queue, forget_at, pgqueue.clock() as now
      from pgqueue._upkeep
     where forget_at < pgqueue.clock()
     order by forget_at
    """,
    unswept_records,
)

UNSWEPT_HISTORY = Check(
    "unswept-history",
    """
    select to_timestamp(day * 86400.0) + kept.days * interval '1 day' as over_at,
           pg_relation_size(pg_class.oid) as size, pgqueue.clock() as now
      from (select (extract(epoch from pgqueue.clock())::bigint / 86400)::integer as today,
                   1 + ceil(coalesce(max(extract(epoch from retain_history)), 0) / 86400)::integer as days
              from pgqueue._upkeep) as kept
     cross join generate_series(today - 63, today - days) as day
      join pg_class on relname = format('settled_message_%%s', lpad((day %% 64)::text, 2, '0'))
       and relnamespace = (select oid from pg_namespace where nspname = 'pgqueue_history')
     where pg_relation_size(pg_class.oid) > 0
     order by day
    """,
    unswept_history,
)

INVARIANTS = Check(
    "broken-invariants",
    "select broken from pgqueue.broken_invariants() as broken",
    each(
        "A rule is broken: {row.broken}.",
        "A message may be lost or received late. The tables were changed by hand, or pgqueue has a bug.",
        "pgqueue sweep --thorough",
    ),
)
