-- Moves the place at which the dead letters of a queue begin, when a statement since `fetched` has read many more pages than it
-- has chosen rows.
create or replace function pgqueue._pass_read(queue_id integer, fetched bigint, chosen integer)
returns void
language plpgsql
as $$
begin
    if pg_stat_get_xact_blocks_fetched('pgqueue.dead_letter'::regclass) > fetched + 2 * chosen + 32 then
        perform pgqueue._pass_front(queue_id, 'DEAD_LETTERED');
    end if;
end
$$;
