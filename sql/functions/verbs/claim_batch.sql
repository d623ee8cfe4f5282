-- Claims the next batch for a consumer, under a lock. Asking for what comes `after` a claim states that all claims up
-- to it were processed: they are completed here. When a claim was made and not settled, it is returned again, whatever
-- it still holds. Otherwise a new claim is made, of up to `max_messages`; it holds no message newer than `up_to` unless
-- an older one is claimed with it. Commit at once.
-- Returns  the claim, or `after` when there is nothing to claim.
-- Raises   PQ002 unknown consumer, PQ004 queue disabled, PQ007 invalid argument, PQ010 consumer fenced.
-- Locks    the messages, for `lock_duration` (the queue's own when null).
create or replace function pgqueue.claim_batch(
    consumer text, after bigint, max_messages integer, lock_duration interval default null, locked_by text default null,
    up_to bigint default null, epoch bigint default null)
returns bigint
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    known  pgqueue.consumer := pgqueue._find_consumer(consumer, epoch);
    source pgqueue.queue    := pgqueue._consumer_queue(known);
    made   bigint           := known.claim;
begin
    if after is null or after > known.claim then
        perform pgqueue._refuse_argument(
            'after', format('a claim that consumer %s has made, up to %s', quote_literal(consumer), known.claim), after::text);
    end if;
    perform pgqueue._settle_claims(known, after);
    if after < known.claim then
        perform pgqueue.begin_claim(consumer, known.claim, lock_duration, epoch);
        return known.claim;
    end if;
    if source.forward_to is not null then
        perform pgqueue._refuse_receive(source);
    end if;
    if pgqueue._has_waiting(source, up_to) then
        insert into pgqueue.claim (consumer, claim, lock_token, messages, numbers, fresh, claimed_at)
        select claim_batch.consumer, made + 1, lock_token, count(*),
               int8range(min(sequence_number), max(sequence_number), '[]'),
               coalesce(int8range(min(position) filter (where lane % 2 <> 0), max(position) filter (where lane % 2 <> 0), '[]')
                        , 'empty'),
               pgqueue.clock()
          from pgqueue.receive(source.name, max_messages, claim_batch.lock_duration, claim_batch.locked_by)
         group by lock_token
        returning claim into made;
        if found then
            update pgqueue.consumer set claim = made where name = claim_batch.consumer;
            delete from pgqueue.claim where consumer = claim_batch.consumer and claim < made - 100;
            return made;
        end if;
    end if;
    return after;
end
$$;
