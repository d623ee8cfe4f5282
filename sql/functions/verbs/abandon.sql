-- Gives a message back: it is delivered again after `delay` (at once when null), before the fresh messages. The next
-- delivery counts one more. `properties` are merged into its application properties.
-- Raises  PQ001 lock lost, PQ002 unknown queue, PQ007 invalid argument.
-- Locks   the message, until the transaction ends.
create or replace function pgqueue.abandon(
    queue text, sequence_number bigint, lock_token uuid, delay interval default null, properties jsonb default null)
returns void
language plpgsql
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    xid     pg_catalog.xid8 := pg_current_xact_id();     -- before a number is drawn, as in pgqueue.send
    awaited boolean;
begin
    if pg_catalog.num_nonnulls(delay, properties) = 0 then
        update pgqueue.message           -- fast path: a fresh message of priority 0
           set lane         = 0,
               position     = pg_catalog.nextval('pgqueue.sequence_number'),
               locked_until = null,
               lock_token   = null,
               locked_by    = null
         where queue_id = (select id from pgqueue.queue where name = abandon.queue)
           and lane = 1 and position = abandon.sequence_number and lock_token = abandon.lock_token
        returning exists (select from pgqueue.queue where name = abandon.queue and awaited_until > pgqueue.clock()) into awaited;
        if found then
            if awaited then
                perform pgqueue._notify(pgqueue._find_queue(queue));
            end if;
            return;
        end if;
    end if;
    perform from pgqueue.abandon_batch(
        queue, array[abandon.sequence_number], array[abandon.lock_token], delay, properties, atomic => true);
end
$$;
