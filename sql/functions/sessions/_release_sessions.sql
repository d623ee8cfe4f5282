-- Releases the sessions whose locks these tokens prove, so that others can accept them at once; see pgqueue.release_session.
-- Returns  which of the given locks have released a session.
-- Locks    them, until the transaction ends; does not wait.
create or replace function pgqueue._release_sessions(source pgqueue.queue, session_ids text[], lock_tokens uuid[])
returns bigint[]
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    held record;
begin
    select coalesce(array_agg(place), '{}') as places, coalesce(array_agg(session_id), '{}') as ids, coalesce(array_agg(nth), '{}') as proven
      into held
      from unnest(session_ids, lock_tokens) with ordinality as given (session_id, lock_token, nth)
     cross join lateral (
           select ctid as place
             from pgqueue.session
            where queue_id = source.id and session_id = given.session_id and lock_token = given.lock_token
              for no key update skip locked) as proven;
    if held.ids <> '{}' then
        update pgqueue.session set lock_token = null, locked_until = null, locked_by = null where ctid = any (held.places);
        perform pgqueue._hand_back(source.id, held.ids);
        if source.awaited_until > pgqueue.clock() then
            perform pgqueue._notify(source);
        end if;
    end if;
    return held.proven;
end
$$;
