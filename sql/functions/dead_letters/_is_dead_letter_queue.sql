-- Returns whether a name denotes the dead letters of a queue. No queue can have such a name.
create or replace function pgqueue._is_dead_letter_queue(queue text)
returns boolean
language sql immutable
return right(queue, 17) = '/$deadletterqueue';
