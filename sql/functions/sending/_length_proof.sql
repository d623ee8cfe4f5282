-- Returns what proves that a note of a queue's length was written by pgqueue._check_queue_length: a hash with a key that only
-- the owner can read. A note of another queue or of another bound proves nothing.
create or replace function pgqueue._length_proof(target pgqueue.queue, note text)
returns text
language sql stable
as $$
    select encode(sha256(convert_to(concat_ws(' ', target.id, target.max_queue_length, note), 'UTF8') || key), 'hex')
      from pgqueue.secret
$$;
