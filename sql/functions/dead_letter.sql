-- Moves a locked message to the dead letters of its queue, with a reason and a description.
-- Returns  the id of the transaction, as pgqueue.complete does.
-- Raises   PQ001 lock lost, PQ002 unknown queue, PQ007 invalid argument.
-- Locks    the message, until the transaction ends.
create or replace function pgqueue.dead_letter(
    queue text, sequence_number bigint, lock_token uuid, reason text, description text default null)
returns xid8
language sql
as $$
    select from pgqueue.dead_letter_batch(queue, array[sequence_number], array[lock_token], reason, description, atomic => true);
    select pg_current_xact_id();
$$;
