-- Settings of topics, and what is scheduled on them.
alter table pgqueue.topic
    add column status                                  text     not null default 'ACTIVE',
    add column user_metadata                           jsonb,
    add column default_message_time_to_live            interval,
    add column requires_duplicate_detection            boolean  not null default false,
    add column duplicate_detection_history_time_window interval not null default interval '10 minutes';

-- Scheduled messages of topics, until they are due: for each a row for the message, whose `queue_id` is 0, and one for each copy in a
-- subscription, with the number of the copy there.
create table pgqueue.scheduled_on_topic (
    topic_id               integer     not null,
    sequence_number        bigint      not null,
    queue_id               integer     not null,
    copy                   bigint,
    scheduled_enqueue_time timestamptz not null,
    constraint scheduled_on_topic_pkey primary key (topic_id, sequence_number, queue_id),
    constraint scheduled_on_a_topic foreign key (topic_id) references pgqueue.topic on delete cascade
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

create index scheduled_on_topic_due on pgqueue.scheduled_on_topic (scheduled_enqueue_time);
