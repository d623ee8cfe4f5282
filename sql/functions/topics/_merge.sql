-- Returns the properties of all of these objects; of a property in several, the last value. Returns null for none.
create or replace function pgqueue._merge(objects jsonb[])
returns jsonb
language sql immutable strict
return (
    select jsonb_object_agg(property.key, property.value order by nth)
      from unnest(objects) with ordinality as given (object, nth)
     cross join lateral jsonb_each(object) as property);
