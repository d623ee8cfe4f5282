-- Records that a queue which is deleted on idle is in use; writes at most twenty times in the period that it may be idle, and
-- nothing in a read-only transaction. One that `sends` locks the record, too, so that no sweep deletes the queue meanwhile.
-- Raises  PQ002 unknown queue, when the queue was deleted and the transaction sends.
-- Locks   the record; waits only for a transaction that deletes the queue.
create or replace function pgqueue._use(queue pgqueue.queue, sends boolean default false)
returns void
language plpgsql
set enable_seqscan = off
as $$
begin
    if queue.auto_delete_on_idle is null or current_setting('transaction_read_only') = 'on' then
        return;
    end if;
    if sends then
        perform from pgqueue.queue_use where queue_id = queue.id for key share;
        if not found then
            perform pgqueue._refuse_unknown_queue(queue.name);
        end if;
    end if;
    update pgqueue.queue_use
       set used_at = pgqueue.clock()
     where ctid = any (array(
               select ctid
                 from pgqueue.queue_use
                where queue_id = queue.id and used_at < pgqueue.clock() - queue.auto_delete_on_idle / 20
                  for no key update skip locked));
end
$$;
