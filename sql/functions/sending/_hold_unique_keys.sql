-- Lets messages hold their unique keys. Keys are locked in sorted order, so that two batches cannot deadlock. Of several
-- messages of a batch with one key the first counts, or where they replace others, the last. A message that is a duplicate by
-- its id, which `answers` shows, holds none.
-- Returns  for each message its own number, or that of the message that holds its key; and whether it replaces that one, which was
--          deleted then.
-- Raises   PQ007 invalid argument, PQ012 duplicate message.
-- Locks    the keys, and the messages that hold them, until the transaction ends.
create or replace function pgqueue._hold_unique_keys(
    target pgqueue.queue, unique_keys text[], unique_scopes text[], message_ids text[], numbers bigint[],
    inout answers bigint[], on_conflict text, out replaces boolean[])
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    given  record;
    holder bigint;
    place  integer;
begin
    replaces := array_fill(false, array[cardinality(numbers)]);
    if on_conflict is null or on_conflict not in ('ignore', 'replace', 'raise') then
        perform pgqueue._refuse_argument('on_conflict', '''ignore'', ''replace'' or ''raise''', on_conflict);
    elsif on_conflict = 'replace' and 'unsettled' = any (unique_scopes) then
        perform pgqueue._refuse_argument(
            'on_conflict', 'left out for a unique_scope of ''unsettled'': a message in work is not replaced', on_conflict);
    end if;
    for given in
        select unique_key, array_agg(nth::integer order by nth) as places,
               (case on_conflict when 'replace' then max(nth) else min(nth) end)::integer as nth,
               (array_agg(unique_scope order by case on_conflict when 'replace' then -nth else nth end))[1] as unique_scope
          from unnest(unique_keys, unique_scopes, numbers, answers) with ordinality
               as sent (unique_key, unique_scope, number, answer, nth)
         where unique_key is not null and answer = number
         group by unique_key
         order by unique_key
    loop
        holder := pgqueue._hold_unique_key(target.id, given.unique_key, given.unique_scope, numbers[given.nth]);
        if on_conflict = 'raise' and (holder <> numbers[given.nth] or cardinality(given.places) > 1) then
            perform pgqueue._refuse(
                'PQ012',
                case when holder = numbers[given.nth]
                     then format('%s messages of the batch have the unique key %L', cardinality(given.places), given.unique_key)
                     else format('message %s of queue %I has the unique key %L', holder, target.name, given.unique_key) end,
                'Nothing was stored. Use on_conflict ''ignore'' or ''replace'', or another key.');
        end if;
        foreach place in array given.places loop
            answers[place] := holder;
        end loop;
        if on_conflict = 'replace' and holder <> numbers[given.nth] then
            perform pgqueue._delete_to_replace(target, holder);
            replaces[given.nth] := true;
        end if;
    end loop;
    if target.requires_duplicate_detection then              -- ids of messages that are merged, and of those that repeat them
        for place in select nth from unnest(numbers, answers) with ordinality as sent (number, answer, nth) where answer <> number loop
            answers[place] := coalesce(answers[array_position(numbers, answers[place])], answers[place]);
            update pgqueue.sent_message_id
               set sequence_number = answers[place]
             where sequence_number = numbers[place]
               and ctid = any (array(
                       select ctid
                         from pgqueue.sent_message_id
                        where queue_id = target.id and message_id between message_ids[place] and message_ids[place]
                        order by message_id));               -- by the index in that order, whatever the statistics
        end loop;
    end if;
end
$$;
