-- Checks what was copied into a staged table, as pgqueue.send_batch checks its arguments; pgqueue.publish checks it again.
-- Returns  the number of rows.
-- Raises   PQ002 unknown queue, PQ005 message too large, PQ007 invalid argument; the error names the position of the
--          invalid row.
create or replace function pgqueue.check_staged(queue text, staged text)
returns bigint
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set synchronize_seqscans = off
as $$
declare
    target pgqueue.queue := pgqueue._find_queue(queue, 'SEND');
begin
    return pgqueue._check_staged(target, staged, pgqueue._staged_columns(target, array[staged]));
end
$$;
