-- Returns where the dead letters or the deferred messages of a queue begin; see pgqueue._pass_front. The messages of an
-- awaited transaction are visible once that has ended, and to itself, whose id no snapshot of its own lists as open: then
-- they begin where it may have brought the first. A plain query, so that it is inlined.
create or replace function pgqueue._front(queue_id integer, kind text)
returns table (reached bigint, first_number bigint)
language sql stable
as $$
    select least(newest.reached,
                 (select min(above)
                    from unnest(awaited, awaited_above) as late (xid, above)
                   where pg_visible_in_snapshot(xid, pg_current_snapshot()))) as reached,
           newest.first_number
      from (select *
              from pgqueue.front
             where front.queue_id = _front.queue_id and front.kind = _front.kind
             order by turn desc
             limit 1) as newest;
$$;
