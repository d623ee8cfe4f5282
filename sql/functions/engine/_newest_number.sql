-- Returns the last number that the sequence has handed out, to a caller who may receive from this queue: messages with
-- greater numbers are sent later.
-- Raises   PQ002 unknown queue, 42501 access denied.
create or replace function pgqueue._newest_number(queue text)
returns bigint
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgqueue._find_queue(queue, 'RECEIVE');
    return pgqueue._last_number_drawn();
end
$$;
