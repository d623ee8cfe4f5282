-- Says which claim a consumer is about to work on, the open one or, after a restart from long ago, one that was settled
-- since; and renews the locks of the open one. pgqueue.claim_batch says it of what it returns.
-- Raises  PQ002 unknown consumer, PQ007 invalid argument.
create or replace function pgqueue.begin_claim(consumer text, claim bigint, lock_duration interval default null)
returns void
language plpgsql
as $$
#variable_conflict use_column
declare
    known pgqueue.consumer := pgqueue._find_consumer(consumer);
begin
    if begin_claim.claim is null or begin_claim.claim > known.claim then
        perform pgqueue._refuse_argument(
            'claim', format('one that consumer %s has made, up to %s', quote_literal(consumer), known.claim), begin_claim.claim::text);
    end if;
    update pgqueue.consumer set current_claim = begin_claim.claim where name = known.name;
    perform pgqueue.renew_claim(begin_claim.consumer, lock_duration);
end
$$;
