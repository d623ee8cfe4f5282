-- Gives a message back, to be delivered again after `delay` (at once when null), before the fresh ones.
-- The next delivery counts one more. `properties` are merged into its application properties.
-- Raises  PQ001 lock lost, PQ002 unknown queue, PQ007 invalid argument.
-- Locks   the message, until the transaction ends.
create or replace function pgqueue.abandon(
    queue text, sequence_number bigint, lock_token uuid, delay interval default null, properties jsonb default null)
returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
    select from pgqueue.abandon_batch(queue, array[sequence_number], array[lock_token], delay, properties, atomic => true);
$$;
