-- Forwards the messages that this transaction has stored in a queue above a number, in batches, and those that have taken the numbers of
-- others, which are in the lanes of redelivered messages.
-- Raises  what pgqueue._forward raises.
create or replace function pgqueue._forward_sent(source pgqueue.queue, above bigint, replaced bigint[] default '{}')
returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    fresh   smallint;
    places  tid[];
    reached bigint;
begin
    foreach fresh in array (select fresh_lanes from pgqueue.queue where id = source.id) loop
        reached := above;
        loop
            select array_agg(place), max(position) into places, reached
              from (select ctid as place, position
                      from pgqueue.message
                     where queue_id = source.id and lane = fresh and position > reached and lock_token is null
                     order by position
                     limit 1000
                       for update skip locked) as stored;
            exit when places is null;
            perform pgqueue._forward(source, places, 'SENT');
        end loop;
    end loop;
    if replaced <> '{}' then
        perform pgqueue._forward(source, array(
            select place
              from unnest(replaced) as number
             cross join lateral unnest(pgqueue._find_message(source, number)) as place), 'SENT');
    end if;
end
$$;
