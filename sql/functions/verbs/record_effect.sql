-- Records that something was done for a message outside of the database, with its result if any. Call it in the
-- transaction that completes the message. The record is kept for `keep`, which should be longer than the time in which
-- the message can be redelivered or sent again.
-- Returns  true when the effect was recorded; false when anyone had recorded it before.
-- Raises   PQ002 unknown queue, PQ007 invalid argument.
-- Locks    the record: another transaction that records the same effect waits for the outcome of this one.
create or replace function pgqueue.record_effect(
    queue text, message_id text, effect text default '', result jsonb default null, keep interval default interval '7 days')
returns boolean
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    source pgqueue.queue := pgqueue._find_queue(queue, 'RECEIVE');
    moment timestamptz   := pgqueue.clock();
begin
    perform pgqueue._refuse_argument(argument, must_be, was)
       from (values
            ('message_id', 'a text that is not empty', quote_nullable(message_id), coalesce(message_id, '') <> ''),
            ('message_id', 'at most 128 characters', length(message_id)::text, length(message_id) <= 128),
            ('effect', 'a text', null, effect is not null),
            ('effect', 'at most 260 characters', length(effect)::text, length(effect) <= 260),
            ('keep', 'positive', null, keep is not null)
            ) as rule (argument, must_be, was, holds)
      where not holds;
    perform pgqueue._check_duration('keep', keep);
    insert into pgqueue.recorded_effect (queue_id, message_id, effect, result, recorded_at, forget_at)
    values (source.id, message_id, effect, result, moment, moment + keep)
        on conflict on constraint recorded_effect_pkey do update
       set result = excluded.result, recorded_at = excluded.recorded_at, forget_at = excluded.forget_at
     where recorded_effect.forget_at <= moment;
    return found;
end
$$;
