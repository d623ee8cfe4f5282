-- Completes the messages that a consumer's open claims still hold, up to a claim, and raises a warning for lost locks.
create or replace function pgqueue._settle_claims(known pgqueue.consumer, through bigint)
returns void
language plpgsql
as $$
declare
    held pgqueue.claim;
    done bigint;
    lost bigint := 0;
begin
    if known.settled_claim >= through then
        return;
    end if;
    for held in
        select * from pgqueue.claim where consumer = known.name and claim <= through and settled_at is null order by claim
    loop
        done := pgqueue._complete_claim(pgqueue._consumer_queue(known), held);
        if done < held.messages then
            lost := lost + held.messages - done;
            raise warning 'consumer % has lost % of the % locks of claim %: those messages are not its own any more',
                quote_literal(known.name), held.messages - done, held.messages, held.claim;
        end if;
    end loop;
    update pgqueue.consumer
       set settled_claim = through, lost_messages = lost_messages + lost
     where name = known.name;
end
$$;
