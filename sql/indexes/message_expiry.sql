-- Where a sweep finds what has expired. Only messages with a time to live are in it, and no claim touches its columns.
create index concurrently if not exists message_expiry on pgqueue.message (queue_id, expires_at) where expires_at is not null;
