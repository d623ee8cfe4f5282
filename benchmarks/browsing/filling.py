"""A database with many queues: one with a fifth of all messages, the others alike, and some messages in every state."""

from __future__ import annotations

import psycopg

from benchmarks.engine.design import BODY

NOTIFICATION = '{"notification": "paid", "version": 1, "data": {"id": 7}, "time_to_live": 3600}'

QUEUES = """
select count(pgqueue.create_queue(case nth when 1 then 'large' else 'queue-' || nth end, lock_duration => '1 day',
                                  retain_history => case when nth < 20 then interval '7 days' end))
  from generate_series(1, %(queues)s) as nth
"""

TOPICS = """
select count(*)
  from generate_series(1, 100) as nth
 cross join lateral pgqueue.create_topic('topic-' || nth)
 cross join generate_series(1, 10) as subscription
 cross join lateral pgqueue.create_subscription('topic-' || nth, subscription::text)
"""
SCHEDULES = """
select count(pgqueue.create_schedule('schedule-' || nth, 'large', every => '1 day', body => '1'))
  from generate_series(1, 1000) as nth
"""

#: In rounds of five messages a queue, so that the messages of a queue lie all over the table.
ROUND = """
select count(*)
  from generate_series(2, %(queues)s) as nth
 cross join lateral pgqueue.send_batch('queue-' || nth, array_fill(%(body)s::jsonb, array[5]))
"""
TO_THE_LARGE_ONE = "select count(*) from pgqueue.send_batch('large', array_fill(%(body)s::jsonb, array[%(messages)s]))"

#: So many messages of a queue, and what becomes of them.
RECEIVE = "select array_agg(sequence_number) as numbers, array_agg(lock_token) as tokens from pgqueue.receive('{}', {})"
SETTLE = {
    "dead letters": "pgqueue.dead_letter_batch('{}', numbers, tokens, 'Unreadable')",
    "deferred": "pgqueue.defer_batch('{}', numbers, tokens)",
    "completed, in the history": "pgqueue.complete_batch('{}', numbers, tokens)",
    "came back with an error": """pgqueue.abandon_batch('{}', numbers, tokens,
        error => '{{"type": "ValueError", "text": "no such customer"}}')""",
    "locked": "generate_series(1, 0)",
}
SCHEDULED = """
select count(*)
  from pgqueue.send_batch('{}', array_fill(%(body)s::jsonb, array[10000]),
       scheduled_enqueue_times => array_fill(pgqueue.clock() + interval '1 day', array[10000]))
"""
LOCKED_EVERYWHERE = """
select count(*)
  from generate_series(2, %(queues)s, 10) as nth
 cross join lateral pgqueue.receive('queue-' || nth, 2)
"""
EXPIRED = "select count(*) from pgqueue.receive('queue-9', 20, lock_duration => '1 millisecond')"
NOTIFICATIONS = """
select count(pgqueue.send('queue-' || %(queues)s, %(body)s::jsonb,
                          content_type => 'application/vnd.pgqueue.notification+json'))
  from generate_series(1, 1000)
"""


def fill(connection: psycopg.Connection, queues: int, messages: int) -> None:
    """Send everything, and bring some of it into every state."""
    connection.execute(QUEUES, {"queues": queues})
    large = messages // 5
    for _ in range(max(1, large // 10_000)):
        connection.execute(TO_THE_LARGE_ONE, {"body": BODY, "messages": min(large, 10_000)})
    for _ in range((messages - large) // queues // 5):
        connection.execute(ROUND, {"queues": queues - 1, "body": BODY})
    for queue, each in (("large", large // 100), ("queue-3", 50)):
        for settle in SETTLE.values():
            settled = settle.format(queue)
            receive = RECEIVE.format(queue, each)
            connection.execute(f"select count(*) from ({receive}) as received cross join lateral {settled}".encode())
        connection.execute(SCHEDULED.format(queue).encode(), {"body": BODY})
    connection.execute(LOCKED_EVERYWHERE, {"queues": queues - 1})
    connection.execute(EXPIRED)
    connection.execute(NOTIFICATIONS, {"queues": queues, "body": NOTIFICATION})
    connection.execute(TOPICS)
    connection.execute(SCHEDULES)
    connection.execute("select pg_sleep(1.1)")
    connection.execute("select count(pgqueue.take_turn(name)) from pgqueue.queue")
    connection.execute("vacuum (analyze)")
