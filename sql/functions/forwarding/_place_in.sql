-- Moves messages whose rows are locked to another queue, which has the lanes of their priorities. They get new
-- positions, because the cursors of that queue may have passed their numbers. One that rests in its session goes on
-- resting. If the queue forwards, those that wait go on.
-- Raises  what pgqueue._forward raises.
create or replace function pgqueue._place_in(target pgqueue.queue, places tid[])
returns void
language plpgsql
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    moment timestamptz := pgqueue.clock();
    placed record;
begin
    perform pg_current_xact_id();        -- take a transaction id before drawing a number, as in pgqueue.send
    with ordered as materialized (
        select ctid as place from pgqueue.message where ctid = any (places) order by sequence_number
    ), placed as materialized (
        select place, nextval('pgqueue.sequence_number') as position from ordered
    ), moved as (
        update pgqueue.message
           set queue_id     = target.id,
               lane         = case when not pgqueue._is_deferred(lane)
                                   then case when target.requires_session or target.fair then 2000 else 2 * pgqueue._priority(lane) end
                                   when target.requires_session or target.fair then 1000
                                   else lane end,
               position     = placed.position,
               locked_until = case when lock_token is null then locked_until end,
               lock_token   = null,
               locked_by    = null,
               time_to_live = least(time_to_live, target.default_message_time_to_live),
               expires_at   = least(expires_at, moment + target.default_message_time_to_live)
          from placed
         where ctid = placed.place
        returning ctid as place, lane, session_id)
    select array_agg(place) filter (where not pgqueue._is_deferred(lane)) as waiting,
           array_agg(session_id) filter (where lane = 2000) as sessions
      into placed
      from moved;
    if placed.sessions is not null then
        perform pgqueue._announce_sessions(target.id, placed.sessions);
    end if;
    if target.forward_to is not null and placed.waiting is not null then
        perform pgqueue._forward(target, placed.waiting, 'SENT');
    end if;
end
$$;
