-- Returns whether a number is in use that the sequence has yet to hand out: the sequence went back. Of messages, those of `queues`
-- are looked at, or all when null.
create or replace function pgqueue._is_sequence_behind(queues text[] default null)
returns boolean
language plpgsql stable
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    last bigint := pgqueue._last_number_drawn();
begin
    return exists (select from pgqueue.progress where horizon > last)
        or exists (select from pgqueue.front where horizon > last)
        or exists (
            select
              from pgqueue.queue
             cross join lateral pgqueue._highest_number_in_use(queue, last) as number
             where (queues is null or name = any (queues)) and number is not null);
end
$$;
