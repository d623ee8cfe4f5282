-- Completes what open claims of a consumer still hold, up to a claim; what they have lost is a warning.
create or replace function pgqueue._settle_claims(consumer pgqueue.consumer, through bigint)
returns void
language plpgsql
as $$
#variable_conflict use_column
declare
    held pgqueue.claim;
    done bigint;
begin
    if consumer.settled_claim >= through then
        return;
    end if;
    for held in
        select * from pgqueue.claim where consumer = consumer.name and claim <= through and settled_at is null order by claim
    loop
        done := pgqueue._complete_claim(pgqueue._queue_of(consumer), held);
        if done < held.messages then
            raise warning 'consumer % has lost % of the % locks of claim %: those messages are delivered to others',
                quote_literal(consumer.name), held.messages - done, held.messages, held.claim;
        end if;
    end loop;
    update pgqueue.consumer set settled_claim = through where name = consumer.name;
end
$$;
