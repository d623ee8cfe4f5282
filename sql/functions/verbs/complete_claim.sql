-- Completes a consumer's claim in the current transaction, together with the work that was done for it there.
-- Returns  true; false when the claim is settled already: the call is a repetition, and there is nothing left to do.
-- Raises   PQ001 lock lost, when the lock of any message of the claim is lost; PQ002 unknown consumer, PQ007 invalid
--          argument, PQ010 consumer fenced.
-- Locks    the consumer and the messages, until the transaction ends.
create or replace function pgqueue.complete_claim(consumer text, claim bigint default null, epoch bigint default null)
returns boolean
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    known pgqueue.consumer := pgqueue._find_consumer(consumer, epoch);
    held  pgqueue.claim    := pgqueue._find_open_claim(known, claim);
    done  bigint;
begin
    if held.claim is null then
        return false;
    end if;
    done := pgqueue._complete_claim(pgqueue._consumer_queue(known), held);
    if done < held.messages then
        perform pgqueue._refuse(
            'PQ001', format('consumer %s has lost %s of the %s locks of claim %s',
                            quote_literal(consumer), held.messages - done, held.messages, held.claim),
            'Those messages were delivered to others, or settled. Roll back, and release the claim with pgqueue.release_claim.');
    end if;
    update pgqueue.consumer set settled_claim = held.claim where name = known.name;
    return true;
end
$$;
