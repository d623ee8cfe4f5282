-- Resumes a queue that was paused, and wakes the consumers that wait.
-- Raises  PQ002 unknown queue.
-- Locks   the queue's row, until the transaction ends: other changes to it wait, senders and receivers do not.
create or replace function pgqueue.resume_queue(queue text)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgqueue._check_admin(queue);
    perform pgqueue._set_paused(queue, null);
end
$$;
