-- Changes the settings of a queue; one that is null stays as it is. A `max_message_size` of 0 takes the limit away,
-- a `user_metadata` of JSON null takes the metadata away. Locks that are held keep their time.
-- Raises  PQ002 unknown queue, PQ007 invalid argument.
-- Locks   the queue's row, until the transaction ends: other changes of it wait, senders and receivers do not.
create or replace function pgqueue.alter_queue(
    queue              text,
    lock_duration      interval default null,
    max_delivery_count integer  default null,
    max_message_size   bigint   default null,
    status             text     default null,
    user_metadata      jsonb    default null
)
returns void
language plpgsql
as $$
#variable_conflict use_column
begin
    perform pgqueue._check_settings(
        alter_queue.lock_duration, alter_queue.max_delivery_count, nullif(alter_queue.max_message_size, 0), alter_queue.status);
    update pgqueue.queue
       set lock_duration      = coalesce(alter_queue.lock_duration, lock_duration),
           max_delivery_count = coalesce(alter_queue.max_delivery_count, max_delivery_count),
           max_message_size   = nullif(coalesce(alter_queue.max_message_size, max_message_size), 0),
           status             = coalesce(alter_queue.status, status),
           user_metadata      = nullif(coalesce(alter_queue.user_metadata, user_metadata), 'null'),
           updated_at         = pgqueue.clock()
     where name = alter_queue.queue;
    if not found then
        perform pgqueue._refuse_unknown_queue(queue);
    end if;
end
$$;
