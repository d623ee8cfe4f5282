-- Completes a message of any kind; pgqueue.complete has a fast path for the most frequent kind.
-- Returns  the id of the transaction or savepoint that is stored in its row; null for a dead letter.
-- Raises   PQ001 lock lost, PQ002 unknown queue, PQ005 result too large, PQ007 invalid argument.
create or replace function pgqueue._complete_any(queue text, sequence_number bigint, lock_token uuid, result jsonb)
returns xid
language plpgsql
set plan_cache_mode = force_generic_plan
as $$
declare
    source pgqueue.queue;
    places tid[];
    stamp  xid;
    freed  text;
begin
    if pgqueue._is_dead_letter_queue(queue) then
        if result is not null then
            perform pgqueue._refuse_result(queue);
        end if;
        perform pgqueue._settle_dead_letters('COMPLETE', queue, array[sequence_number], array[lock_token], atomic => true);
        return null;
    end if;
    source := pgqueue._find_queue(queue, 'RECEIVE');
    if source.fair and not source.records_settlements and result is null then
        delete from pgqueue.message      -- in its first delivery, before which nothing has gone wrong
         where queue_id = source.id and lane % 2 = 0 and message.sequence_number = _complete_any.sequence_number
           and message.lock_token = _complete_any.lock_token and delivery_count = 1 and position = _complete_any.sequence_number
        returning xmax, session_id into stamp, freed;
        if found then
            if pgqueue._limits_groups(source) then
                perform pgqueue._announce_sessions(source.id, array[freed]);      -- see pgqueue._free_slots_in_groups
            end if;
            return stamp;
        end if;
    end if;
    places := pgqueue._pin(source, sequence_number, lock_token);
    if result is not null and source.result_retention is null then
        perform pgqueue._refuse_result(queue);
    elsif source.records_settlements then
        perform pgqueue._record_settlement(source, array[sequence_number], 'COMPLETED', result => result);
    end if;
    perform pgqueue._free_slots_in_groups(source, places);
    delete from pgqueue.failed_message as known
     where known.queue_id = source.id and known.sequence_number = _complete_any.sequence_number;
    if source.retain_history is null then
        delete from pgqueue.message where ctid = any (places) returning xmax into stamp;
    else
        with gone as (
            delete from pgqueue.message where ctid = any (places) returning message, xmax as deleter
        ), remembered as (
            insert into pgqueue.settled_message
            select settled.* from gone cross join lateral pgqueue._history_row(gone.message, 'COMPLETED') as settled)
        select deleter into stamp from gone;
    end if;
    return stamp;
end
$$;
