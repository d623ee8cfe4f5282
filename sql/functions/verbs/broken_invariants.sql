-- Checks what check constraints would guarantee if they cost nothing; see the table pgqueue.message. Reads all tables:
-- meant for tests, and for when something looks wrong.
-- Returns  one sentence for each violation; no rows when there is none.
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
