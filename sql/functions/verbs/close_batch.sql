-- Closes a batch: no more members can be added. The transaction that settles its last member finishes it, or this one if none is pending. To
-- close a batch again changes nothing.
-- Returns  whether it was open.
-- Raises   PQ050 batch not found, 42501 access denied.
-- Locks    the batch, until the transaction ends; waits for open transactions that have added members.
create or replace function pgqueue.close_batch(batch uuid)
returns boolean
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    known  pgqueue.batch;
    target pgqueue.queue;
begin
    unlisten pgqueue_maintenance;            -- refused where PostgreSQL runs others' functions for a superuser: see ADR 43
    select * into known from pgqueue.batch where id = close_batch.batch for update;
    if not found then
        perform pgqueue._refuse_unknown_batch(batch);
    end if;
    select * into target from pgqueue.queue where id = known.queue_id;
    if found and not pgqueue._may_send(target.senders) then
        perform pgqueue._refuse_access('SEND', target.name);
    end if;
    if known.closed_at is not null then
        return false;
    end if;
    update pgqueue.batch set closed_at = pgqueue.clock() where id = known.id;
    insert into pgqueue.batch_change (batch_id, stripe, closes)
    select known.id, stripe, true from generate_series(0, known.open_stripes - 1) as stripe;
    return true;
end
$$;
