-- Keeps a queue going without receiving from it: expired locks and messages whose time has come are put back within
-- reach. pgqueue.receive does this by itself; who only ever receives with `take_turn => false`, or deletes what it
-- receives, calls this once a second, and when nothing came, in a transaction of its own.
-- Returns  whether a message came back.
-- Raises   PQ002 unknown queue.
create or replace function pgqueue.take_turn(queue text)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return pgqueue._take_turn(pgqueue._find_queue(queue));
end
$$;
