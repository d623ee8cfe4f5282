-- Moves the places at which the dead letters and the deferred messages of a queue begin, if much is gone there. A `thorough` sweep
-- sets them to the beginning if there is one before; see pgqueue._find_before_front.
create or replace function pgqueue._sweep_fronts(queue_id integer, thorough boolean)
returns void
language plpgsql
set enable_sort = off
as $$
declare
    fetched bigint;
begin
    if thorough and exists (select from pgqueue._find_before_front(queue_id)) then
        update pgqueue.front
           set reached = 0, first_number = 0
         where ctid = any (array(
                   select ctid from pgqueue.front where front.queue_id = _sweep_fronts.queue_id for update skip locked));
        return;
    end if;
    fetched := pg_stat_get_xact_blocks_fetched('pgqueue.dead_letter'::regclass);
    perform from pgqueue._dead_letters_from(queue_id, 0) limit 1;
    perform pgqueue._pass_read(queue_id, fetched, 1);
    fetched := pg_stat_get_xact_blocks_fetched('pgqueue.message'::regclass);
    perform from pgqueue._deferred_messages(queue_id) limit 1;
    if pg_stat_get_xact_blocks_fetched('pgqueue.message'::regclass) > fetched + 32 then
        perform pgqueue._pass_front(queue_id, 'DEFERRED');
    end if;
end
$$;
