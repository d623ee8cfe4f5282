-- Moves locked rows to the dead letters.
create or replace function pgqueue._bury(places tid[], reason text, description text)
returns void
language sql
set enable_seqscan = off
as $$
    with gone as (
        delete from pgqueue.message where ctid = any (places) returning message)
    insert into pgqueue.dead_letter
    select (pgqueue._unlocked(gone.message)).*, reason, description, pgqueue.clock() from gone;
$$;
