-- Subtracts the current delivery of locked rows from their delivery counts.
-- Returns  the new ctids of the rows.
create or replace function pgqueue._uncount_delivery(places tid[])
returns tid[]
language sql
set enable_seqscan = off
as $$
    with uncounted as (
        update pgqueue.message
           set delivery_count = delivery_count - 1
         where ctid = any (places)
        returning ctid as place)
    select array_agg(place) from uncounted;
$$;
