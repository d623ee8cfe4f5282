-- Takes expired messages, whose rows are locked, out of their queue: to the dead letters where it asks for that.
create or replace function pgqueue._expire(queue pgqueue.queue, places tid[])
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if queue.dead_lettering_on_message_expiration then
        perform pgqueue._move_to_dead_letters(queue, places, 'TTLExpiredException', 'the message was not received before it expired');
    else
        perform pgqueue._delete_messages(queue, places, 'EXPIRED');
    end if;
end
$$;
