-- Sends the message of a schedule once for each of these due times. A message's id names the due time: a queue that
-- detects duplicates would refuse a second message for the same one. The session that fires the schedule needs no right
-- to send to the queue: an administrator has created it.
-- Returns  the sequence numbers.
-- Raises   what pgqueue.send_batch raises.
create or replace function pgqueue._send_recurring(known pgqueue.schedule, due_times timestamptz[])
returns setof bigint
language sql
as $$
    select abs(unnest(pgqueue._send_any(
               queue,
               -- generated: {body to binary_body: array_fill(known.$name, size)},
               array_fill(known.body, size), array_fill(known.binary_body, size),
               -- end
               array(
                   select coalesce(known.message_id, known.name) || '@'
                          || rtrim(rtrim(to_char(due at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), '0'), '.') || 'Z'
                     from unnest(due_times) as due),
               -- generated: {correlation_id to time_to_live: array_fill(known.$name, size)},
               array_fill(known.correlation_id, size), array_fill(known.subject, size),
               array_fill(known.content_type, size), array_fill(known.reply_to, size),
               array_fill(known.application_properties, size), array_fill(known.priority, size),
               array_fill(known.time_to_live, size),
               -- end
               array(
                   select due + random() * known.jitter
                     from unnest(due_times) as due),
               negate_duplicates => true,            -- no notice: another queue's receiver may fire the schedule
               -- generated: {from session_id: $arrays => array_fill(known.$name, size)}
               session_ids => array_fill(known.session_id, size),
               reply_to_session_ids => array_fill(known.reply_to_session_id, size), tos => array_fill(known."to", size),
               partition_keys => array_fill(known.partition_key, size),
               unique_keys => array_fill(known.unique_key, size), unique_scopes => array_fill(known.unique_scope, size)
               -- end
               )))
      from pgqueue.queue
     cross join (select array[cardinality(due_times)]) as shape (size)
     where queue.id = known.queue_id and due_times <> '{}';
$$;
