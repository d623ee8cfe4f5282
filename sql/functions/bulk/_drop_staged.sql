-- Drops staged tables, as far as they still exist.
-- Returns  how many were dropped.
create or replace function pgqueue._drop_staged(staged text[])
returns integer
language plpgsql
as $$
declare
    gone  text;
    count integer := 0;
begin
    for gone in
        delete from pgqueue.staged_batch where name = any (staged) returning name
    loop
        execute format('drop table if exists pgqueue.%I', gone);
        count := count + 1;
    end loop;
    return count;
end
$$;
