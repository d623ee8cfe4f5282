-- Keeps a queue going without receiving from it: expired locks and messages whose time has come are put back within
-- reach. pgqueue.receive does this by itself; who only ever receives with `take_turn => false`, or deletes what it
-- receives, calls this when nothing came, in a transaction of its own.
-- Returns  whether a message came back.
-- Raises   PQ002 unknown queue.
create or replace function pgqueue.take_turn(queue text)
returns boolean
language plpgsql
as $$
declare
    source pgqueue.queue := pgqueue._find_queue(queue);
begin
    return pgqueue._take_turn(source, nullif(current_setting('pgqueue.scan_' || source.id, true), '')::bigint[]);
end
$$;
