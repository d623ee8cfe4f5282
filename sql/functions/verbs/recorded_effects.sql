-- Lists what was done for a message outside of the database, as recorded by committed transactions.
-- Returns  one row per effect, in the order they were recorded.
-- Raises   PQ002 unknown queue.
create or replace function pgqueue.recorded_effects(queue text, message_id text)
returns table (effect text, result jsonb, recorded_at timestamptz)
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    source pgqueue.queue := pgqueue._find_queue(queue, 'RECEIVE');
begin
    return query
        select effect, result, recorded_at
          from pgqueue.recorded_effect
         where queue_id = source.id
           and recorded_effect.message_id = recorded_effects.message_id and forget_at > pgqueue.clock()
         order by recorded_at;
end
$$;
