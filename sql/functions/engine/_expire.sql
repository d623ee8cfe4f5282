-- Removes expired messages, whose rows are locked, from their queue: to the dead letters if the queue's settings
-- require it.
create or replace function pgqueue._expire(queue pgqueue.queue, places tid[])
returns void
language plpgsql
as $$
begin
    if queue.dead_lettering_on_message_expiration then
        perform pgqueue._move_to_dead_letters(queue, places, 'TTLExpiredException', 'the message was not received before it expired');
    else
        perform pgqueue._delete_messages(queue, places, 'EXPIRED');
    end if;
end
$$;
