-- Moves locked rows to the dead letters.
-- Returns  their sequence numbers.
create or replace function pgqueue._bury(places tid[], reason text, description text)
returns bigint[]
language sql
set enable_seqscan = off
as $$
    with gone as (
        delete from pgqueue.message where ctid = any (places) returning message
    ), buried as (
        insert into pgqueue.dead_letter
        select (pgqueue._unlocked(gone.message)).*, reason, description, pgqueue.clock() from gone
        returning sequence_number)
    select array_agg(sequence_number) from buried;
$$;
