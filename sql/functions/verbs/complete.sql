-- Deletes a received message in the current transaction: a commit completes the message together with the work; after a
-- rollback the message is still there, locked with the same token. A queue with `result_retention` keeps the `result`.
-- Returns  the id of the transaction, or of the savepoint in it; pgqueue.resolve returns the outcome of that id.
-- Raises   PQ001 lock lost, PQ002 unknown queue, PQ005 result too large; PQ007 invalid argument, when a `result` is given
--          that the queue does not keep.
-- Locks    the message, until the transaction ends.
create or replace function pgqueue.complete(
    queue text, sequence_number bigint, lock_token uuid, result jsonb default null)
returns xid8
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    whole xid8;
    stamp xid;                                -- of the savepoint, if one is open
begin
    unlisten pgqueue_maintenance;            -- refused where PostgreSQL runs others' functions for a superuser: see ADR 43
    delete from pgqueue.message          -- fast path: a fresh message of priority 0
     where queue_id = (select id from pgqueue.queue
                        where name = complete.queue and not records_settlements and complete.result is null
                          and pgqueue._may_receive(receivers))
       and lane = 1 and position = complete.sequence_number and lock_token = complete.lock_token
    returning xmax into stamp;
    if not found then
        stamp := pgqueue._complete_any(queue, complete.sequence_number, complete.lock_token, complete.result);
    end if;
    whole := pg_current_xact_id();
    if stamp = whole::xid then
        return whole;
    end if;
    return pgqueue._settling_xid();
end
$$;
