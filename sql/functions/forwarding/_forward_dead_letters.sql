-- Forwards messages that die in a queue, whose rows are locked, to the queue that collects its dead letters: as messages that
-- were never delivered, with the reason. One that was forwarded four times already stays, as a dead letter of its queue;
-- so does one that a queue on the way refuses, and its description states the reason.
create or replace function pgqueue._forward_dead_letters(source pgqueue.queue, places tid[], reason text, description text)
returns void
language plpgsql
as $$
#variable_conflict use_variable
declare
    stopped tid[]   := array(select ctid from pgqueue.message where ctid = any (places) and hops >= 4);
    half    integer;
    target  pgqueue.queue;
begin
    if stopped <> '{}' then
        perform pgqueue._move_to_dead_letters(
            source, stopped, 'MaxTransferHopCountExceeded',
            concat_ws(': ', 'it was forwarded 4 times, and then died of ' || reason, description), may_forward => false);
        places := array(select ctid from pgqueue.message where ctid = any (places));
    end if;
    half := cardinality(places) / 2;
    if places = '{}' then
        return;
    end if;
    begin
        perform from pgqueue.forwarding_target where queue_id = source.forward_dead_lettered_messages_to for key share;
        select * into target from pgqueue.queue where id = source.forward_dead_lettered_messages_to;
        if not found then                                    -- it was dropped, after the source had been changed
            perform pgqueue._move_to_dead_letters(source, places, reason, description, may_forward => false);
            return;
        end if;
        insert into pgqueue.settled_message
        select settled.*
          from pgqueue.message
         cross join lateral pgqueue._history_row(message, 'DEAD_LETTERED', reason) as settled
         where message.ctid = any (places) and source.retain_history is not null;
        if (select records_settlements from pgqueue.queue where id = source.id) then
            perform pgqueue._record_settlement(
                source, array(select sequence_number from pgqueue.message where ctid = any (places)),
                'DEAD_LETTERED', reason, description);
        end if;
        insert into pgqueue.failed_message (queue_id, sequence_number, forwarded_from)
        select distinct on (sequence_number) source.id, sequence_number,                     -- two may have the same number
               jsonb_build_object('queue', source.name, 'reason', reason, 'description', description,
                                  'dead_lettered_at', pgqueue.clock(), 'delivery_count', delivery_count)
          from pgqueue.message
         where ctid = any (places)
            on conflict on constraint failed_message_pkey do update set forwarded_from = excluded.forwarded_from;
        perform pgqueue._forward(target, pgqueue._move_to_queue(source, target, places, 'DIED'), 'DEAD');
    exception when sqlstate 'PQ004' or sqlstate 'PQ005' or sqlstate 'PQ007' or sqlstate 'PQ008' then
        if half = 0 then
            perform pgqueue._move_to_dead_letters(
                source, places, reason, concat_ws('; ', description, 'not forwarded: ' || sqlerrm), may_forward => false);
        else
            perform pgqueue._forward_dead_letters(source, places[:half], reason, description);
            perform pgqueue._forward_dead_letters(source, places[half + 1:], reason, description);
        end if;
    end;
end
$$;
