-- Moves a row of a session that waits, which is locked, to the time from which on it can be accepted. That is no time before the
-- present, which is read by a transaction that has an id: see pgqueue._pass_due_times.
create or replace function pgqueue._move_waiting(place tid, available_at timestamptz)
returns void
language sql
as $$
    update pgqueue.waiting_session
       set available_at = greatest(_move_waiting.available_at, pgqueue.clock()), changed_by = pg_current_xact_id()
     where ctid = place;
$$;
