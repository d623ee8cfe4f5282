-- Pins a message before work on it; see pgqueue.pin. Before that, it may release the advisory locks that other work has
-- left in the session. All in one function, because the server parses and plans each text that it gets.
-- Returns  the id of the transaction and the run of the server, separated by a space.
-- Raises   PQ001 lock lost, PQ002 unknown queue.
-- Locks    the message, until the transaction ends.
create or replace function pgqueue._pin_delivery(
    queue text, sequence_number bigint, lock_token uuid, release_advisory_locks boolean)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if release_advisory_locks then
        perform pg_advisory_unlock_all();
    end if;
    perform pgqueue.pin(queue, sequence_number, lock_token);
    return concat_ws(' ', pg_current_xact_id(), pgqueue.server_run());
end
$$;
