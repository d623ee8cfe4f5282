-- Gives a locked message back, to be delivered again after `delay`, without counting the delivery: for work that
-- depends on something that is not ready yet. A `body` or a `binary_body` replaces the body of the message.
-- Raises  PQ001 lock lost, PQ002 unknown queue, PQ005 message too large, PQ007 invalid argument.
-- Locks   the message, until the transaction ends.
create or replace function pgqueue.postpone(
    queue           text,
    sequence_number bigint,
    lock_token      uuid,
    delay           interval,
    body            jsonb    default null,
    binary_body     bytea    default null
)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    source pgqueue.queue := pgqueue._find_queue(queue, 'RECEIVE');
    places tid[];
    size   bigint;
begin
    if delay is null then
        perform pgqueue._refuse_argument('delay', 'zero or positive', delay::text);
    end if;
    perform pgqueue._check_duration('delay', delay, even_zero => true);
    if num_nonnulls(postpone.body, postpone.binary_body) > 1 then
        perform pgqueue._refuse_argument('the message', 'one with either a body or a binary_body', 'both');
    end if;
    places := pgqueue._uncount_delivery(pgqueue._pin(source, sequence_number, lock_token));
    if num_nonnulls(postpone.body, postpone.binary_body) > 0 then
        with rewritten as (
            update pgqueue.message
               set body = postpone.body, binary_body = postpone.binary_body
             where ctid = any (places)
            returning ctid as place, application_properties as properties)
        select array_agg(place),
               sum(case when source.max_message_size is not null
                        then octet_length(coalesce(postpone.binary_body, convert_to(postpone.body::text, 'UTF8')))
                             + coalesce(octet_length(properties::text), 0) end)
          into places, size
          from rewritten;
        if size > source.max_message_size then
            perform pgqueue._refuse_size(source, 'the message', size);
        end if;
    end if;
    perform pgqueue._release_groups(source, places);
    if delay > interval '0' then
        perform pgqueue._delay(places, pgqueue.clock() + delay);
    else
        perform pgqueue._redeliver(places, settled => true);
    end if;
    if source.awaited_until > pgqueue.clock() then
        perform pgqueue._notify(source);
    end if;
end
$$;
