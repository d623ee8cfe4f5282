-- Sessions that are locked, have messages or state: who holds each until when, how many messages wait, how long the oldest has
-- been there, and from when on the session can be accepted. A session that was released waits behind the others.
create or replace view pgqueue.sessions with (security_barrier) as
select queue.name as queue,
       session_id,
       coalesce(locked_until > pgqueue.clock(), false) as is_locked,
       locked_by,
       date_trunc('second', locked_until) as locked_until,
       messages,
       date_trunc('second', pgqueue.clock() - oldest_enqueued_time) as oldest_age,
       date_trunc('second', case when messages > 0 then available_at end) as available_at,
       coalesce(octet_length(binary_state), octet_length(state::text)) as state_size,
       state_set_at
  from (select *
          from pgqueue.queue
         where (select pgqueue._may_see_locks('{}')) or pgqueue._may_see_locks(receivers)
         order by name) as queue
 cross join lateral (
       select session_id from pgqueue.session where session.queue_id = queue.id
        union
       select session_id from pgqueue.waiting_session as waiting where waiting.queue_id = queue.id) as known
  left join lateral (
       select *
         from pgqueue.session
        where session.queue_id = queue.id and session.session_id = known.session_id
        limit 1) as session using (session_id)
  left join lateral (
       select min(available_at) as available_at
         from pgqueue.waiting_session as waiting
        where waiting.queue_id = queue.id and waiting.session_id = known.session_id) as next on true
 cross join lateral (
       select count(*) as messages, min(enqueued_time) as oldest_enqueued_time
         from pgqueue.message
        where message.queue_id = queue.id and lane = 2000 and message.session_id = known.session_id) as present
 where not fair and (messages > 0 or session.queue_id is not null)
 order by queue.name, session_id;
