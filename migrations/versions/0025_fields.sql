-- The session in which an answer is expected, as the sender has given it.
alter table pgqueue.message add column reply_to_session_id text;
alter table pgqueue.scheduled_message add column reply_to_session_id text;
alter table pgqueue.dead_letter add column reply_to_session_id text;
alter table pgqueue.schedule add column reply_to_session_id text;
alter type pgqueue.received_message add attribute reply_to_session_id text;

-- No statistics of what senders have written; see revision 0010.
alter table pgqueue.message alter column reply_to_session_id set statistics 0;
alter table pgqueue.scheduled_message alter column reply_to_session_id set statistics 0;
alter table pgqueue.dead_letter alter column reply_to_session_id set statistics 0;

-- Whom the message is meant for, as the sender has given it; the name is that of Service Bus and AMQP, and is reserved in SQL.
alter table pgqueue.message add column "to" text;
alter table pgqueue.scheduled_message add column "to" text;
alter table pgqueue.dead_letter add column "to" text;
alter table pgqueue.schedule add column "to" text;
alter type pgqueue.received_message add attribute "to" text;
alter table pgqueue.message alter column "to" set statistics 0;
alter table pgqueue.scheduled_message alter column "to" set statistics 0;
alter table pgqueue.dead_letter alter column "to" set statistics 0;

-- What the sender wants to keep together, as it has given it: stored and handed out, for there are no partitions.
alter table pgqueue.message add column partition_key text;
alter table pgqueue.scheduled_message add column partition_key text;
alter table pgqueue.dead_letter add column partition_key text;
alter table pgqueue.schedule add column partition_key text;
alter type pgqueue.received_message add attribute partition_key text;
alter table pgqueue.message alter column partition_key set statistics 0;
alter table pgqueue.scheduled_message alter column partition_key set statistics 0;
alter table pgqueue.dead_letter alter column partition_key set statistics 0;

-- Of the media type, which senders write too, statistics were left.
alter table pgqueue.message alter column content_type set statistics 0;
alter table pgqueue.scheduled_message alter column content_type set statistics 0;
alter table pgqueue.dead_letter alter column content_type set statistics 0;
alter table pgqueue.settled_message alter column content_type set statistics 0;
