-- Shows the messages of a session without changing them: waiting, locked and deferred ones, from `from_sequence_number` on, as
-- pgqueue.peek does for a queue. With a `lock_token` it proves that the caller holds the session; without one, anybody who may
-- receive from the queue looks at it. A scheduled message belongs to the session when it is due.
--
-- A message that came back has its number and a later position, so the numbers of a session are sorted. Those of a long one are read in
-- their order instead, among those of the other sessions.
-- Returns  one row per message, by sequence number.
-- Raises   PQ002 unknown queue, PQ007 invalid argument, PQ020 session lock lost.
create or replace function pgqueue.peek_session(
    queue text, session_id text, lock_token uuid default null, max_messages integer default 1, from_sequence_number bigint default 0)
returns setof pgqueue.received_message
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    few      constant integer       := 5000;
    source            pgqueue.queue := pgqueue._find_session_queue(queue);
    held              pgqueue.session;
    past              bigint;
    is_short          boolean;
begin
    perform pgqueue._check_bound(coalesce(max_messages, 0));
    select * into held from pgqueue.session where queue_id = source.id and session_id = peek_session.session_id;
    if peek_session.lock_token is not null and held.lock_token is distinct from peek_session.lock_token then
        perform pgqueue._refuse_lost_session(source, peek_session.session_id);
    end if;
    past     := greatest(coalesce(held.cursor, 0), peek_session.from_sequence_number - 1);
    is_short := not exists (
        select
          from pgqueue.message
         where queue_id = source.id and lane = 2000 and session_id <= peek_session.session_id
           and (session_id, position) > (peek_session.session_id, past)
         order by session_id, position                   -- see pgqueue._next_in_sessions
        offset few
         limit 1);
    return query
        select (pgqueue._as_received(message, null)).*
          from ((select known as message, sequence_number
                   from pgqueue.message as known
                  where ctid = any (case when is_short then array(
                            select place
                              from (select ctid as place, sequence_number
                                      from pgqueue.message
                                     where queue_id = source.id and lane = 2000 and session_id <= peek_session.session_id
                                       and (session_id, position) > (peek_session.session_id, past)
                                     order by session_id, position
                                     limit few) as present
                             where sequence_number >= from_sequence_number
                             order by sequence_number
                             limit max_messages)
                        else array(
                            select ctid
                              from pgqueue.message
                             where queue_id = source.id and lane % 2 = 0 and lane = 2000 and session_id = peek_session.session_id
                               and sequence_number >= from_sequence_number
                             order by sequence_number
                             limit max_messages) end))
                 union all
                select deferred, sequence_number
                  from pgqueue._deferred_messages(source.id) as deferred
                 where session_id = peek_session.session_id and sequence_number >= from_sequence_number) as found
         order by sequence_number
         limit max_messages;
end
$$;
