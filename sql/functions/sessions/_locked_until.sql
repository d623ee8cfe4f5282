-- Returns until when a session is locked, whether that time has passed or not; null when it is not locked.
create or replace function pgqueue._locked_until(queue_id integer, session_id text)
returns timestamptz
language sql stable
set enable_seqscan = off
set enable_bitmapscan = off
as $$
    select locked_until from pgqueue.session
     where session.queue_id = _locked_until.queue_id and session.session_id = _locked_until.session_id;
$$;
