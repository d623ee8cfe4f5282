-- Takes a turn without receiving: makes messages with expired locks, and messages whose time has come, available to
-- receivers. pgqueue.receive does this by itself. A consumer that only uses `take_turn => false` or
-- pgqueue.receive_and_delete calls this once a second, and whenever a receive finds nothing, in a transaction of its
-- own.
-- Returns  whether a message became available.
-- Raises   PQ002 unknown queue.
create or replace function pgqueue.take_turn(queue text)
returns boolean
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
begin
    return pgqueue._take_turn(pgqueue._find_queue(queue, 'RECEIVE'));
end
$$;
