-- Locks the rows of those of these sessions that have no holder, and creates rows for those that have none. Where the sequence went
-- back, a session begins at its first message.
-- Returns  the ctids of their rows; without those that another receiver holds or is accepting just now, and those of which a message
--          was settled in a transaction that is open.
-- Locks    the sessions, until the transaction ends; see pgqueue._create_sessions.
create or replace function pgqueue._free_sessions(queue_id integer, session_ids text[])
returns tid[]
language plpgsql
as $$
#variable_conflict use_column
declare
    free       tid[];
    remembered integer;
begin
    select coalesce(array_agg(held.place), '{}'), count(*) filter (where held.horizon > 0)
      into free, remembered
      from unnest(session_ids) as given (session_id)
     cross join lateral (
           select ctid as place, horizon
             from pgqueue.session
            where queue_id = _free_sessions.queue_id and session_id = given.session_id
              and (locked_until is null or locked_until <= pgqueue.clock())          -- the row of a holder is not even locked
              for update skip locked) as held;
    if remembered > 0 then
        update pgqueue.session
           set cursor = 0, horizon = 0
         where ctid = any (free) and horizon > pgqueue._last_number_drawn();
        if found then
            return pgqueue._free_sessions(_free_sessions.queue_id, session_ids);
        end if;
    end if;
    if cardinality(free) < cardinality(session_ids) then
        free := free || pgqueue._create_sessions(_free_sessions.queue_id, array(
            select id
              from unnest(session_ids) as id
              left join lateral (
                   select true as is_there
                     from pgqueue.session
                    where queue_id = _free_sessions.queue_id and session_id = id
                    limit 1) as known on true                         -- each by itself: a join may read all sessions
             where is_there is null));
    end if;
    return free;
end
$$;
