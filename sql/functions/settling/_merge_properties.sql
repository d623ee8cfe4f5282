-- Merges `properties` into the application properties of locked rows.
-- Returns  the new ctids of the rows.
create or replace function pgqueue._merge_properties(places tid[], properties jsonb)
returns tid[]
language sql
as $$
    with annotated as (
        update pgqueue.message
           set application_properties = coalesce(application_properties, '{}') || properties
         where ctid = any (places)
        returning ctid as place)
    select array_agg(place) from annotated;
$$;
