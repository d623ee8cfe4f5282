-- Creates the rows of sessions that were never accepted. Of two transactions that create the same row, the second
-- gives up instead of waiting for the first.
-- Returns  the ctids of the rows; without those that another transaction creates.
-- Locks    the sessions, until the transaction ends; waits a millisecond for others.
create or replace function pgqueue._create_sessions(queue_id integer, session_ids text[])
returns tid[]
language plpgsql
set lock_timeout = '1ms'
as $$
#variable_conflict use_column
declare
    created tid[];
begin
    if session_ids = '{}' then
        return '{}';
    end if;
    with created as (
        insert into pgqueue.session (queue_id, session_id, horizon_taken_at)
        select _create_sessions.queue_id, id, pgqueue.clock()
          from unnest(session_ids) as id
            on conflict on constraint session_pkey do nothing
        returning ctid as place)
    select coalesce(array_agg(place), '{}') into created from created;
    return created;
exception when lock_not_available then
    if cardinality(session_ids) = 1 then
        return '{}';
    end if;
    return array(
        select created.place
          from unnest(session_ids) as given (id)
         cross join unnest(pgqueue._create_sessions(_create_sessions.queue_id, array[given.id])) as created (place));
end
$$;
