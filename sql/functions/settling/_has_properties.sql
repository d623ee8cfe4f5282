-- Returns  whether application properties have each of the wanted values; others may be there, too.
create or replace function pgqueue._has_properties(application_properties jsonb, wanted jsonb)
returns boolean
language sql immutable
as $$
    select coalesce(application_properties, '{}') @> wanted      -- also where a list has more, or an object
       and not exists (
           select from jsonb_each(wanted) as given (key, value) where application_properties -> key is distinct from value)
$$;
