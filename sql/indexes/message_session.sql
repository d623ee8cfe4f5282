-- Finds the messages of a session in their order. It holds only messages of queues that require sessions, and a receive
-- writes none of its columns.
create index concurrently if not exists message_session on pgqueue.message (queue_id, session_id, position) where lane = 2000;
