-- Finds the open claim of a consumer with this number.
-- Returns  null when the claim is settled: completed, or given back.
-- Raises   PQ007 invalid argument, when there never was such a claim.
create or replace function pgqueue._find_open_claim(known pgqueue.consumer, number bigint)
returns pgqueue.claim
language plpgsql
as $$
declare
    held pgqueue.claim;
begin
    if number is null or number > known.claim then
        perform pgqueue._refuse_argument(
            'claim', format('one that consumer %s has made, up to %s', quote_literal(known.name), known.claim), number::text);
    end if;
    select * into held from pgqueue.claim where consumer = known.name and claim = number and settled_at is null;
    return held;
end
$$;
