"""The data of the pages and the API, as documents: each function is a few statements in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Final, Literal, get_args

from pgqueue.dashboard.database import Rows, document, read_json
from pgqueue.dashboard.figures import SUMMED, Figures, sums
from pgqueue.errors import MessageNotFoundError, TopicNotFoundError

PAGE = 50
Span = Literal["hour", "day", "week"]
SPANS: Final[dict[Span, timedelta]] = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(days=7)}
State = Literal["READY", "LOCKED", "SCHEDULED", "DEFERRED", "DEAD_LETTERED", "EXPIRED", "EXHAUSTED"]
STATES: Final = get_args(State)
ScheduleState = Literal["ON_TIME", "LATE", "FAILING", "PAUSED", "UNPLANNED", "ENDED"]
Order = Literal["name", "ready", "dead_letters", "oldest_age", "expired_locks"]

SETTINGS: Final = """select * from pgqueue.queue_settings(%(queue)s)"""
COUNTS: Final = """
select name, ready, locked, scheduled, deferred, expired, exhausted, dead_letters, true as is_exact,
       extract(epoch from pgqueue.clock() - oldest_enqueued_time)::float8 as oldest_age,
       (select count(*) from pgqueue.expired_locks where queue = name) as expired_locks
  from pgqueue.queue_counts(%(queue)s)
"""
#: At most 360 points, each the last sample of its part of the span; times are the worst of the part.
SAMPLES: Final = """
select extract(epoch from max(sampled_at))::bigint as at,
       (array_agg(ready order by sampled_at desc))[1] as ready,
       (array_agg(locked order by sampled_at desc))[1] as locked,
       (array_agg(scheduled order by sampled_at desc))[1] as scheduled,
       (array_agg(dead_letters order by sampled_at desc))[1] as dead_letters,
       max(oldest_age) as oldest_age, avg(settled)::float8 as settled,
       max(waited[1]) as waited_median, max(waited[2]) as waited_95th, max(waited[3]) as waited_99th,
       max(worked[1]) as worked_median, max(worked[2]) as worked_95th, max(worked[3]) as worked_99th
  from pgqueue.samples
 where queue = %(queue)s and sampled_at > pgqueue.clock() - %(span)s
 group by floor(extract(epoch from sampled_at) / greatest(60, extract(epoch from %(span)s) / 360))
 order by at
"""
LIVING: Final = "select *, jsonb_pretty(body) as pretty from pgqueue.peek(%(queue)s, 1, %(number)s)"
DEAD: Final = "select *, jsonb_pretty(body) as pretty from pgqueue.peek_dead_letters(%(queue)s, 1, %(number)s)"
FOUND: Final = """
select *
  from pgqueue.find_messages(%(queue)s, %(state)s, %(after)s, %(page)s, message_id => %(message_id)s,
       correlation_id => %(correlation_id)s, subject => %(subject)s, reason => %(reason)s)
"""
HISTORY: Final = """
select outcome, reason, settled_at, delivery_count, locked_by, first_locked_at, enqueued_time
  from pgqueue.history
 where queue = %(queue)s and sequence_number = %(number)s
 order by settled_at desc
 limit 10
"""
OUTCOME: Final = """
select state, result, error, settled_at from pgqueue.results where queue = %(queue)s and sequence_number = %(number)s
"""
#: Those first that need attention.
WORKERS: Final = """
select name, state, extract(epoch from not_seen_for)::float8 as not_seen_for, queues, concurrency, running, waiting,
       overdue, handled, failed,
       (select jsonb_object_agg(loop, error) from jsonb_each_text(failing) as each (loop, error))::text as failing,
       started_at, seen_at, version, host, pid, role, id
  from pgqueue.workers
 order by array_position('{STUCK,FAILING,MISSING,STOPPING,SERVING}', state), name, started_at
 limit 500
"""
GROUPS: Final = """
select group_id, waiting, locked, max_concurrent, max_receive_rate, available_at
  from pgqueue.groups
 where queue = %(queue)s
 order by waiting desc, available_at, group_id
 limit 10
"""

SESSIONS: Final = """
select pid, coalesce(nullif(application_name, ''), usename::text) as name, usename::text as role,
       client_addr::text as address, backend_start, state,
       wait_event = 'ClientRead' and query ~* '^listen' as is_listening
  from pg_stat_activity
 where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
   and (application_name ~ '^pgqueue' or strpos(query, 'pgqueue'::regnamespace::text) > 0)
 order by application_name, backend_start
 limit 500
"""
TOPICS: Final = """
select name, subscriptions, status, created_at
  from pgqueue.topics
  join pgqueue.topic_settings() using (name)
 where name > %(after)s
 order by name
 limit %(page)s
"""
TOPIC: Final = "select name from pgqueue.topics where name = %(topic)s"
SUBSCRIPTIONS: Final = """
select name, queue, created_at, (
           select jsonb_agg(to_jsonb(rule) - '{topic,subscription,queue}'::text[] order by rule.name)
             from pgqueue.rules as rule
            where rule.queue = subscription.queue) as rules
  from pgqueue.subscriptions as subscription
 where topic = %(topic)s and name > %(after)s
 order by name
 limit %(page)s
"""
#: A due time that passed unnoticed for ten seconds was missed. `known_until` is null where no due time is unknown.
SCHEDULES: Final = """
with schedule as (
    select name, queue, cron, every, timezone, starts_at, ends_at, jitter, catch_up, next_due, known_until, last_due,
           last_error, created_at,
           case when is_paused then 'PAUSED'
                when last_error is not null then 'FAILING'
                when next_due < pgqueue.clock() - interval '10 seconds' then 'LATE'
                when next_due is not null then 'ON_TIME'
                when known_until is not null then 'UNPLANNED'
                else 'ENDED' end as state
      from pgqueue.schedules)
select *, case state when 'LATE' then pgqueue.clock() - next_due end as late_by
  from schedule
 where name > %(after)s and (%(state)s::text is null or state = %(state)s)
 order by name
 limit %(page)s
"""
#: The batches at whose end a message is sent to a queue.
BATCHES: Final = """
select id, total, pending, completed, dead_lettered, deleted, created_at, closed_at, finished_at
  from pgqueue.batches
 where queue = %(queue)s
 order by created_at desc
 limit 20
"""
AUDIT: Final = """
select id, acted_at, role, action, queue, messages, details
  from pgqueue.audit_log
 where id < %(before)s
 order by id desc
 limit %(page)s
"""
LAST: Final = 2**63 - 1

#: The figures of a queue that its subscription is shown with.
SUBSCRIBED: Final = ("status", "paused_at", *SUMMED, "oldest_age", "is_exact")
NOT_SHOWN: Final = {"lock_token", "queue_id", "lane", "position", "failures", "binary_body"}


def may_monitor(rows: Rows) -> None:
    """Raise AccessDeniedError unless the person may see the figures of all queues."""
    rows.value("select pgqueue._check_counts()")


def settings(rows: Rows, queue: str) -> dict[str, Any]:
    """The settings of a queue."""
    return document(rows.all(SETTINGS, queue=queue)[0])


def counts(rows: Rows, queue: str) -> dict[str, Any]:
    """The exact counts of one queue; takes long where it is large."""
    return document(rows.all(COUNTS, queue=queue)[0])


def batches(rows: Rows, queue: str) -> list[dict[str, Any]]:
    """The last batches at whose end a message is sent to a queue, the newest first."""
    return rows.all(BATCHES, queue=queue)


def samples(rows: Rows, queue: str, span: Span) -> list[dict[str, Any]]:
    """The samples of a queue over an hour, a day or a week, oldest first."""
    settings(rows, queue)
    return rows.all(SAMPLES, queue=queue, span=SPANS[span])


def messages(rows: Rows, queue: str, *, after: int = 0, **filters: str | None) -> dict[str, Any]:
    """A page of messages by number. `next` is what the next page comes after; None when this is the last."""
    known = dict.fromkeys(("state", "message_id", "correlation_id", "subject", "reason"))
    found = rows.all(FOUND, queue=queue, after=after, page=PAGE, **{**known, **filters})
    shown = [row for row in found if row["state"] is not None]
    is_cut = len(found) > len(shown)
    last = found[-1]["sequence_number"] if is_cut or len(shown) == PAGE else None
    return {"queue": queue, "messages": shown, "next": last, "is_cut": is_cut}


def message(rows: Rows, queue: str, number: int, *, is_dead: bool = False) -> dict[str, Any]:
    """One message whole: its properties, body, deliveries, and why it is delivered or not.

    Raises MessageNotFoundError when the queue has neither the message nor a record of it.
    """
    found = rows.one(DEAD if is_dead else LIVING, queue=queue, number=number)
    explanation = rows.value("select pgqueue.explain_message(%(queue)s, %(number)s)", queue=queue, number=number)
    past = rows.all(HISTORY, queue=queue, number=number)
    outcome = rows.one(OUTCOME, queue=queue, number=number)
    if found is None or found["sequence_number"] != number:
        if not is_dead:
            dead = rows.one(DEAD, queue=queue, number=number)
            if dead is not None and dead["sequence_number"] == number:
                return message(rows, queue, number, is_dead=True)
        if not past and outcome is None:
            raise MessageNotFoundError(explanation)
        found = {}
    failures = read_json(found.get("failures") or "{}")
    shown = {name: value for name, value in found.items() if name not in NOT_SHOWN}
    if found.get("binary_body") is not None:
        shown["body"] = None
        shown["binary_body"] = bytes(found["binary_body"]).hex()
    log = failures.get("delivery_log") or list(filter(None, [failures.get("last_error")]))
    return {
        **shown,
        "queue": queue,
        "sequence_number": number,
        "is_there": bool(found),
        "is_dead": bool(found.get("dead_letter_reason")),
        "is_scheduled": found.get("scheduled_enqueue_time") is not None,
        "is_locked": found.get("locked_by") is not None and found.get("locked_until") is not None,
        "explanation": explanation,
        "deliveries": log,
        "resubmitted_from": failures.get("resubmitted_from"),
        "forwarded_from": failures.get("forwarded_from"),
        "history": past,
        "outcome": outcome and {**outcome, "error": read_json(outcome["error"] or "{}")},
    }


def workers(rows: Rows) -> list[dict[str, Any]]:
    """The workers that the role may see, at most 500."""
    return [{**row, "failing": read_json(row["failing"] or "{}")} for row in rows.all(WORKERS)]


def groups(rows: Rows, queue: str) -> list[dict[str, Any]]:
    """The groups of a fair queue that have the most waiting messages."""
    return rows.all(GROUPS, queue=queue)


def sessions(rows: Rows) -> list[dict[str, Any]]:
    """The connections of pgqueue's clients, as far as the role may see them."""
    return rows.all(SESSIONS)


def topics(rows: Rows, figures: Figures | None, after: str) -> dict[str, Any]:
    """A page of topics by name, with the sums of their subscriptions' figures; None without figures."""
    subscribed: dict[str, list[Mapping[str, Any]]] = {}
    for queue in figures.queues if figures else ():
        subscribed.setdefault(queue["name"].rpartition("/Subscriptions/")[0], []).append(queue)
    page = _page(rows.all(TOPICS, after=after, page=PAGE + 1))
    for topic in page["found"]:
        counted = subscribed.get(topic["name"], ())
        topic.update(sums(counted) if figures else dict.fromkeys((*SUMMED, "is_exact")))
    return {"topics": page["found"], "next": page["next"]}


def subscriptions(rows: Rows, topic: str, figures: Figures | None, after: str) -> dict[str, Any]:
    """A page of the subscriptions of a topic by name, each with the figures of its queue; None without figures.

    Raises TopicNotFoundError when the role sees no such topic.
    """
    if rows.one(TOPIC, topic=topic) is None:
        raise TopicNotFoundError(
            f"topic {topic} does not exist, or this role may neither send to it nor receive from it"
        )
    page = _page(rows.all(SUBSCRIPTIONS, topic=topic, after=after, page=PAGE + 1))
    queues = {queue["name"]: queue for queue in figures.queues} if figures else {}
    for subscription in page["found"]:
        subscription["rules"] = read_json(subscription["rules"] or "[]")
        queue = queues.get(subscription["queue"], {})
        subscription |= {name: queue.get(name) for name in SUBSCRIBED}
    return {"topic": topic, "subscriptions": page["found"], "next": page["next"]}


def schedules(rows: Rows, state: str | None, after: str) -> dict[str, Any]:
    """A page of the schedules by name, all or those in one state."""
    page = _page(rows.all(SCHEDULES, state=state, after=after, page=PAGE + 1))
    return {"schedules": [document(schedule) for schedule in page["found"]], "next": page["next"]}


def _page(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Rows by name, of which one more was read than a page has; `next` is the name that the next page comes after."""
    return {"found": found[:PAGE], "next": found[PAGE - 1]["name"] if len(found) > PAGE else None}


def audit(rows: Rows, before: int = LAST) -> dict[str, Any]:
    """A page of what people did here, the last first."""
    found = rows.all(AUDIT, before=before, page=PAGE)
    return {"entries": found, "next": found[-1]["id"] if len(found) == PAGE else None}


def page_of(queues: Iterable[Mapping[str, Any]], *, search: str, order: str, after: str) -> dict[str, Any]:
    """A page of the queues whose names contain a text; `after` is the name of the last one on the page before."""
    matching = [queue for queue in queues if search.casefold() in queue["name"].casefold()]
    if order != "name":
        matching.sort(key=lambda queue: queue[order] or 0, reverse=True)
    names = [queue["name"] for queue in matching]
    begin = names.index(after) + 1 if after in names else 0
    shown = matching[begin : begin + PAGE]
    is_last = begin + PAGE >= len(matching)
    return {"queues": shown, "found": len(matching), "next": None if is_last else shown[-1]["name"]}
