-- Gives a message back: it is delivered again after `delay` (at once when null), before the fresh messages. The next
-- delivery counts one more. `properties` are merged into its application properties. An `error` that made the delivery
-- fail is kept with the message: a JSON object of the texts `type`, `text` and `traceback`. A message that was delivered
-- as often as its queue allows is dead-lettered instead.
-- Raises  PQ001 lock lost, PQ002 unknown queue, PQ007 invalid argument.
-- Locks   the message, until the transaction ends.
create or replace function pgqueue.abandon(
    queue text, sequence_number bigint, lock_token uuid, delay interval default null, properties jsonb default null,
    error jsonb default null)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    xid     xid8 := pg_current_xact_id();     -- before a number is drawn, as in pgqueue.send
    awaited boolean;
begin
    unlisten pgqueue_maintenance;            -- refused where PostgreSQL runs others' functions for a superuser: see ADR 43
    if num_nonnulls(delay, properties, error) = 0 then
        update pgqueue.message           -- fast path: a fresh message of priority 0
           set lane         = 0,
               position     = nextval('pgqueue.sequence_number'),
               locked_until = null,
               lock_token   = null,
               locked_by    = null
         where queue_id = (select id from pgqueue.queue where name = abandon.queue and pgqueue._may_receive(receivers))
           and lane = 1 and position = abandon.sequence_number and lock_token = abandon.lock_token
           and delivery_count < (select max_delivery_count from pgqueue.queue where name = abandon.queue)
        returning exists (select from pgqueue.queue where name = abandon.queue and awaited_until > pgqueue.clock()) into awaited;
        if found then
            if awaited then
                perform pgqueue._notify(pgqueue._find_queue(queue, 'RECEIVE'));
            end if;
            return;
        end if;
    end if;
    perform from pgqueue.abandon_batch(
        queue, array[abandon.sequence_number], array[abandon.lock_token], delay, properties, atomic => true, error => error);
end
$$;
