-- Checks that a claim is open and the epoch is the current one: everything read of the claim so far was then complete.
-- Locks nothing, so that tasks that read a claim can call it while a transaction completes the claim.
-- Raises  PQ001 lock lost, when the claim is settled; PQ002 unknown consumer, PQ007 invalid argument, PQ010 consumer
--         fenced.
create or replace function pgqueue.check_claim(consumer text, claim bigint, epoch bigint)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    known pgqueue.consumer;
    held  pgqueue.claim;
begin
    select * into known from pgqueue.consumer where name = check_claim.consumer;
    if not found then
        perform pgqueue._refuse_unknown_consumer(consumer);
    end if;
    perform pgqueue._check_consumer(known, epoch);
    held := pgqueue._find_open_claim(known, claim);
    if held.claim is null then
        perform pgqueue._refuse(
            'PQ001', format('claim %s of consumer %s is settled: its messages are completed, or were given back', claim, quote_literal(consumer)),
            'Read a batch before it is completed; start the query again if its claim was released.');
    end if;
end
$$;
