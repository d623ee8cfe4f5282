-- Completes a message in the transaction that it is pinned in; see pgqueue.complete.
-- Returns  the id of the transaction.
-- Raises   PQ001 lock lost, PQ002 unknown queue, PQ011 pinned in another transaction.
-- Locks    the message, until the transaction ends.
create or replace function pgqueue._complete_delivery(queue text, sequence_number bigint, lock_token uuid, pinned_in xid8)
returns xid8
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if pg_current_xact_id_if_assigned() = pinned_in then
        return pgqueue.complete(queue, sequence_number, lock_token);
    end if;
    perform pgqueue._refuse_transaction(queue, pinned_in);
end
$$;
