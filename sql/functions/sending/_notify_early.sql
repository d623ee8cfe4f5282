-- Wakes the consumers that wait for messages of a queue when a lock expires before their next poll: they poll now, and
-- learn when it expires. In a queue whose own locks are as short, they poll once a second anyway; see pgqueue._due_in.
create or replace function pgqueue._notify_early(queue pgqueue.queue, lock_duration interval)
returns void
language plpgsql
as $$
begin
    if lock_duration < interval '5 seconds' and queue.lock_duration >= interval '5 seconds'
       and queue.awaited_until > pgqueue.clock() then
        perform pgqueue._notify(queue);
    end if;
end
$$;
