-- Finds violations in sessions; see pgqueue.broken_invariants.
create or replace function pgqueue._find_broken_sessions()
returns setof text
language sql stable
as $$
    select format('session %L of queue %I has messages, but does not wait for anybody to accept it', session_id, name)
      from (select distinct queue_id, session_id from pgqueue.message where lane = 2000) as session
      join pgqueue.queue on queue.id = queue_id
     where not exists (select from pgqueue.waiting_session as waiting
                        where waiting.queue_id = session.queue_id and waiting.session_id = session.session_id)
     union all
    select format('message %s of queue %I is free, but its group %L is set aside', sequence_number, name, session_id)
      from pgqueue.message
      join pgqueue.queue on queue.id = queue_id
     where lane = 2000 and fair and not pgqueue._limits_groups(queue) and (locked_until is null or locked_until <= pgqueue.clock())
       and not exists (
           select
             from pgqueue.waiting_session as waiting
            where waiting.queue_id = message.queue_id and waiting.session_id = message.session_id
              and available_at <= pgqueue.clock() + interval '1 second')
     union all
    select format('message %s of queue %I %s', sequence_number, name, broken)
      from (select queue_id, sequence_number, session_id, lane from pgqueue.message
             union all
            select queue_id, sequence_number, session_id, lane from pgqueue.scheduled_message
             union all
            select queue_id, sequence_number, session_id, lane from pgqueue.dead_letter) as message
      join pgqueue.queue on queue.id = queue_id
     cross join lateral (values
           ((requires_session or fair) and session_id is null, 'belongs to no session'),
           ((requires_session or fair) and lane <> 2000 and not pgqueue._is_deferred(lane), 'is not in the lane of sessions'),
           (lane = 2000 and not (requires_session or fair), 'is in the lane of sessions, which its queue does not require')
           ) as rule (is_broken, broken)
     where is_broken
     union all
    select format('message %s of session %L of queue %s is behind the cursor of the session', sequence_number, session_id, queue_id)
      from (select queue_id, session_id, cursor from pgqueue.session
             union all
            select queue_id, session_id, pgqueue._group_cursor(waiting_session) from pgqueue.waiting_session) as session
      join pgqueue.message using (queue_id, session_id)
     where lane = 2000 and position <= cursor;
$$;
