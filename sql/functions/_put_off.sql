-- Moves locked rows out of the way until `until`; they come back into the redelivery lanes of their priorities.
create or replace function pgqueue._put_off(places tid[], until timestamptz)
returns void
language sql
set enable_seqscan = off
as $$
    with gone as (
        delete from pgqueue.message where ctid = any (places) returning message)
    insert into pgqueue.scheduled_message
    select (pgqueue._unlocked(gone.message)).*, until from gone;
$$;
