-- Returns the tables whose ids, and `message` if its numbers, are to be handed out again: after a logical replication or a
-- restore of data alone the sequences are behind what is in the tables.
-- Raises  42501 access denied.
create or replace function pgqueue._sequences_behind()
returns setof text
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgqueue._check_monitor();
    return query
    select relname::text
      from pg_attribute
      join pg_class on pg_class.oid = attrelid
     where relnamespace = 'pgqueue'::regnamespace and attidentity <> '' and pgqueue._highest_id(attrelid) > pgqueue._last_id(attrelid)
     union all
    select 'message' where pgqueue._is_sequence_behind();
end
$$;
