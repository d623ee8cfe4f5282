-- Pauses a queue: it hands out nothing until pgqueue.resume_queue. Receives find nothing, as in an empty queue. Sends and
-- settlements, renewals, peeks, dead letters and sweeps go on, and messages that are locked stay so. A queue that is paused
-- already stays as it is.
-- Raises  PQ002 unknown queue.
-- Locks   the queue's row, until the transaction ends: other changes to it wait, and so does the first sender that uses a
--         priority there; other senders and receivers do not.
create or replace function pgqueue.pause_queue(queue text)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgqueue._check_admin(queue);
    perform pgqueue._set_paused(queue, pgqueue.clock());
end
$$;
