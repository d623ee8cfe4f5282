insert into pgqueue.scheduled_message (sequence_number, position, enqueued_time, queue_id, lane, body, scheduled_enqueue_time)
select n, n, now(), (select id from pgqueue.queue where name = 'bench'), 0, %(body)s::jsonb, now() + interval '1 day'
  from (select nextval('pgqueue.sequence_number') as n from generate_series(1, %(messages)s)) as numbers;
