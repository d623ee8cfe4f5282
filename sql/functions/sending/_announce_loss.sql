-- Notifies the holder of a lock, when this transaction commits, that the lock was taken away: its process listens while
-- it has messages, and renews this lock at once, in vain. If it misses that, its next renewal fails. A transaction that
-- is to be prepared must not send a NOTIFY; see pgqueue._notify.
create or replace function pgqueue._announce_loss(queue pgqueue.queue, sequence_number bigint)
returns void
language plpgsql
as $$
begin
    if coalesce(current_setting('pgqueue.notify', true), '') <> 'off' and pg_notification_queue_usage() < 0.5 then
        perform pg_notify('pgqueue_lock_lost', sequence_number || ' ' || queue.name);
    end if;
end
$$;
