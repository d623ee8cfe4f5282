-- Finds the dead letters that came last. The cast keeps it apart from the primary key: with any statistics the one is read by
-- positions, the other by sequence numbers. A receive writes none of its columns.
create index concurrently if not exists dead_letter_position on pgqueue.dead_letter ((queue_id::bigint), position);
