-- Forgets sessions that are not locked and were found empty: they do not wait any more, and the row of each is deleted, unless
-- it has state, or a transaction of its last holder keeps it, or its cursor was looked after, or its lock expired, within the
-- last hour: the cursor spares the next holder what was settled before, and the last holder may still write
-- the state and settle deferred messages. A later receiver that finds the session empty, or a sweep, deletes it then.
--
-- Messages are looked for once more after the rows were locked: a receive may have taken a slot of a group meanwhile.
-- Locks    the rows, until the transaction ends; skips those that others hold.
create or replace function pgqueue._forget_sessions(queue_id integer, session_ids text[])
returns void
language plpgsql
as $$
#variable_conflict use_column
declare
    free record;
begin
    select array_agg(place) as places, array_agg(id) as ids into free
      from unnest(session_ids) as id
     cross join lateral (                              -- each by itself: see pgqueue._free_sessions
           select ctid as place
             from pgqueue.session
            where queue_id = _forget_sessions.queue_id and session_id = id
              and num_nonnulls(state, binary_state) = 0
              and (horizon = 0 or horizon_taken_at not between pgqueue.clock() - interval '1 hour' and pgqueue.clock())
              and (locked_until is null or locked_until <= pgqueue.clock() - interval '1 hour')
              and not exists (
                  select
                    from pgqueue.message_group as used
                   where used.queue_id = _forget_sessions.queue_id and group_id = id and full_at > pgqueue.clock())
              for update skip locked) as held;
    session_ids := pgqueue._forget_waiting(_forget_sessions.queue_id, session_ids);
    with gone as (
        delete from pgqueue.session
         where ctid = any (array(
                   select place from unnest(free.places, free.ids) as held (place, id) join unnest(session_ids) as empty (id) using (id)))
        returning session_id)
    delete from pgqueue.message_group as used
     using gone
     where used.queue_id = _forget_sessions.queue_id and group_id = gone.session_id;
end
$$;
