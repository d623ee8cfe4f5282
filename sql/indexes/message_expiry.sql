-- Finds expired messages for a sweep. It holds only messages with a time to live, and a receive writes none of its
-- columns.
create index concurrently if not exists message_expiry on pgqueue.message (queue_id, expires_at) where expires_at is not null;
