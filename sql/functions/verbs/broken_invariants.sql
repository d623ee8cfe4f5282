-- What the tables would forbid if check constraints cost nothing; see the table pgqueue.message. Reads everything:
-- for tests, and for when something looks wrong.
-- Returns  a sentence for each thing that is not as it must be; none when all is well.
create or replace function pgqueue.broken_invariants()
returns setof text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select * from pgqueue._find_broken_messages()
     union all
    select * from pgqueue._find_broken_numbers()
     union all
    select * from pgqueue._find_broken_progress()
     union all
    select * from pgqueue._find_broken_watch();
$$;
