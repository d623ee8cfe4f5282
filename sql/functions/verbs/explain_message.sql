-- Explains in words why a message is delivered now or is not: its lock and the holder, an open transaction that holds it,
-- a schedule or a pause after an error; that it is deferred, exhausted, expired or dead; that the queue is disabled,
-- paused or forwards; or that there is no such message. Changes nothing.
-- Returns  a text of a few sentences.
-- Raises   PQ002 unknown queue.
create or replace function pgqueue.explain_message(queue text, sequence_number bigint)
returns text
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    source  pgqueue.queue := pgqueue._find_queue(
        case when pgqueue._is_dead_letter_queue(queue) then pgqueue._dead_letters_of(queue) else queue end, 'RECEIVE');
    moment  timestamptz   := pgqueue.clock();
    subject text          := format('Message %s of queue %I', explain_message.sequence_number, source.name);
    known   record;
    holder  text;
    outcome text;
begin
    select message.*, message.xmax as changed_by, pgqueue._is_held_in_session(message) as is_held into known
      from pgqueue.message
     where ctid = any (pgqueue._find_message(source, explain_message.sequence_number));
    if found then
        holder := pgqueue._holding_transaction(known.changed_by);
        outcome := case
            when holder is not null
            then format('is not delivered: %s holds it, until that transaction ends.', holder)
            when known.is_held
            then format('is locked by %s, the holder of its session %L.', known.locked_by, known.session_id)
            when known.lane = 2000 and known.lock_token is null and known.locked_until > moment
            then format(case when source.fair then 'rests after a delivery until %s.'
                             else 'rests after a delivery until %s, and holds up the later messages of its session %L.' end,
                        date_trunc('second', known.locked_until), known.session_id)
            when known.locked_until > moment and not source.requires_session
            then format('is locked by %s until %s, for another %s. pgqueue.unlock takes the lock away.',
                        known.locked_by, date_trunc('second', known.locked_until), date_trunc('second', known.locked_until - moment))
            when known.expires_at <= moment
            then format('has expired at %s: the next receive or sweep %s.', date_trunc('second', known.expires_at),
                        case when source.dead_lettering_on_message_expiration then 'dead-letters it' else 'deletes it' end)
            when known.delivery_count >= source.max_delivery_count
            then 'is exhausted: the next receive or sweep dead-letters it.'
            when known.lane between 800 and 1200
            then 'is deferred: only pgqueue.receive_deferred delivers it, by its number.'
            when source.forward_to is not null
            then 'is not delivered here: the queue forwards it at its next turn or sweep.'
            when source.status in ('DISABLED', 'RECEIVE_DISABLED') or source.paused_at is not null
            then 'is not delivered.'
            when source.fair
            then format('can be delivered now: when its group %L has a turn, as far as its limits allow.', known.session_id)
            when known.lane = 2000
            then format('can be delivered now: to the holder of its session %L, after the earlier messages of the session.',
                        known.session_id)
            else 'can be delivered now: to the next receive that reaches it.' end;
        if known.locked_until <= moment and known.locked_by is not null then
            outcome := format('%s The lock of %s expired at %s.', outcome, known.locked_by, date_trunc('second', known.locked_until));
        end if;
        return pgqueue._explanation(source, explain_message.sequence_number, subject, outcome, known.delivery_count);
    end if;
    select scheduled.*, scheduled.xmax as changed_by into known
      from pgqueue.scheduled_message as scheduled
     where queue_id = source.id and sequence_number = explain_message.sequence_number;
    if found then
        holder := pgqueue._holding_transaction(known.changed_by);
        outcome := case
            when holder is not null
            then format('is not delivered: %s holds it, until that transaction ends.', holder)
            when known.scheduled_enqueue_time <= moment
            then format('is due since %s: the next receive finds it.', date_trunc('second', known.scheduled_enqueue_time))
            else format('%s until %s, for another %s. pgqueue.cancel_scheduled deletes it, pgqueue.reschedule gives it another time.',
                        case when known.delivery_count = 0 then 'is scheduled: it waits' else 'rests after a delivery,' end,
                        date_trunc('second', known.scheduled_enqueue_time),
                        date_trunc('second', known.scheduled_enqueue_time - moment)) end;
        return pgqueue._explanation(source, explain_message.sequence_number, subject, outcome, known.delivery_count);
    end if;
    select dead_letter_reason, dead_letter_error_description, dead_lettered_at, locked_by, locked_until into known
      from pgqueue.dead_letter
     where queue_id = source.id and sequence_number = explain_message.sequence_number;
    if found then
        return concat_ws(' ',
            format('%s has been a dead letter since %s: %s.', subject, date_trunc('second', known.dead_lettered_at),
                   concat_ws(', ', known.dead_letter_reason, known.dead_letter_error_description)),
            case when known.locked_until > moment
                 then format('It %s until %s.', coalesce('is locked by ' || known.locked_by, 'rests after a delivery,'),
                             date_trunc('second', known.locked_until)) end,
            'pgqueue.resubmit gives it back to its queue.');
    end if;
    select settled.* into known                              -- the last days first: no index has the numbers
      from (select day from generate_series(-1, ceil(extract(epoch from source.retain_history) / 86400)::integer) as day order by day) as past
     cross join lateral (
           select outcome, settled_at, locked_by
             from pgqueue.settled_message
            where slot = pgqueue._history_slot(moment - day * interval '1 day')
              and queue_id = source.id and sequence_number = explain_message.sequence_number
              and settled_at > moment - source.retain_history
            order by settled_at desc, transaction_id desc
            limit 1) as settled
     limit 1;
    if not found then
        select ended.state as outcome, ended.settled_at, null::text as locked_by into known
          from pgqueue.outcome as ended
         where queue_id = source.id and ended.sequence_number = explain_message.sequence_number
           and ended.settled_at > moment - source.result_retention;
    end if;
    if found then
        return format('%s is not there any more: %s at %s%s.', subject, known.outcome, date_trunc('second', known.settled_at),
                      ', last locked by ' || known.locked_by);
    end if;
    return format('Queue %I does not have a message %s: %s.', source.name, explain_message.sequence_number,
        case when explain_message.sequence_number > pgqueue._last_number_drawn() then 'no message has got this number yet'
             else 'it was settled or deleted, was sent to another queue, or was sent by a transaction that is still open' end);
end
$$;
