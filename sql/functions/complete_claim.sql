-- Completes the open claim of a consumer in the transaction it is called in, together with what was done for it there, if
-- it is the one that is being worked on.
-- Returns  the claim; null when the one that is being worked on was completed before.
-- Raises   PQ001 lock lost, when any message of the claim is; PQ002 unknown consumer.
-- Locks    the messages, until the transaction ends.
create or replace function pgqueue.complete_claim(consumer text)
returns bigint
language plpgsql
as $$
#variable_conflict use_column
declare
    known pgqueue.consumer := pgqueue._find_consumer(consumer);
    held  pgqueue.claim;
    done  bigint;
begin
    if known.settled_claim >= known.current_claim then
        return null;
    end if;
    select * into held from pgqueue.claim where consumer = known.name and claim = known.claim;
    done := pgqueue._complete_claim(pgqueue._queue_of(known), held);
    if done < held.messages then
        raise exception using
            errcode = 'PQ001',
            message = format('consumer %s has lost %s of the %s locks of claim %s',
                             quote_literal(consumer), held.messages - done, held.messages, held.claim),
            hint    = 'Others have those messages, or they are gone. Roll back; release the claim with pgqueue.release_claim.';
    end if;
    update pgqueue.consumer set settled_claim = known.claim where name = known.name;
    return held.claim;
end
$$;
