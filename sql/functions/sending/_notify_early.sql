-- Wakes the consumers that wait for messages of a queue because of a lock that runs out before they would poll again:
-- they poll now, and learn when. In a queue where all locks are as short they poll once a second; see pgqueue._due_in.
create or replace function pgqueue._notify_early(queue pgqueue.queue, lock_duration interval)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if lock_duration < interval '5 seconds' and queue.lock_duration >= interval '5 seconds'
       and queue.awaited_until > pgqueue.clock() then
        perform pgqueue._notify(queue);
    end if;
end
$$;
