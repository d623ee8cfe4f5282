-- Returns whether a queue takes every message of ordinary priority without a look at it: one that needs no check, lock or
-- record but the message. pgqueue.send has the same condition.
create or replace function pgqueue._takes_plain_messages(queue pgqueue.queue)
returns boolean
language sql stable
return (queue).status = 'ACTIVE' and not (queue).requires_duplicate_detection and not (queue).requires_session and not (queue).fair
       and num_nonnulls((queue).max_message_size, (queue).max_queue_length, (queue).auto_delete_on_idle, (queue).forward_to) = 0;
