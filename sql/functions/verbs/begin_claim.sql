-- States which claim a consumer is about to process: the open claim or, after a restart from an old checkpoint, a claim
-- that has been settled since. Renews the locks of the open claim.
-- Returns  whether the claim is open.
-- Raises   PQ002 unknown consumer, PQ007 invalid argument, PQ010 consumer fenced.
create or replace function pgqueue.begin_claim(consumer text, claim bigint, lock_duration interval default null, epoch bigint default null)
returns boolean
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform pgqueue.renew_claim(begin_claim.consumer, lock_duration, begin_claim.claim, epoch);
    return exists (
        select from pgqueue.claim where consumer = begin_claim.consumer and claim = begin_claim.claim and settled_at is null);
end
$$;
