-- Locks the row of a session without a holder, and creates it if there is none. Where the sequence went back, the session begins
-- at its first message.
-- Returns  the session; null when another receiver holds it, is accepting it just now, or has a transaction open in which a message
--          of it was settled.
-- Locks    the session, until the transaction ends; see pgqueue._create_session.
create or replace function pgqueue._free_session(queue_id integer, session_id text)
returns pgqueue.session
language plpgsql
as $$
#variable_conflict use_column
declare
    known pgqueue.session;
begin
    select * into known
      from pgqueue.session
     where queue_id = _free_session.queue_id and session_id = _free_session.session_id
       and (locked_until is null or locked_until <= pgqueue.clock())      -- the row of a holder is not even locked
       for update skip locked;
    if not found and not exists (
        select from pgqueue.session where queue_id = _free_session.queue_id and session_id = _free_session.session_id) then
        known := pgqueue._create_session(_free_session.queue_id, _free_session.session_id);
    elsif known.horizon > 0 and known.horizon > pgqueue._last_number_drawn() then    -- the sequence went back
        known.cursor  := 0;
        known.horizon := 0;
    end if;
    return known;
end
$$;
