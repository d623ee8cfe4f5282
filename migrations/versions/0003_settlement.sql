-- New columns must not rewrite a table: a rewritten one is empty for who has a snapshot from before.
alter table pgqueue.queue
    add column default_message_time_to_live            interval,
    add column dead_lettering_on_message_expiration    boolean  not null default false,
    add column requires_duplicate_detection            boolean  not null default false,
    add column duplicate_detection_history_time_window interval not null default interval '10 minutes',
    add column max_queue_length                        bigint,
    add column retain_history                          interval,
    add constraint default_message_time_to_live_is_positive check (default_message_time_to_live > interval '0'),
    add constraint duplicate_detection_history_time_window_is_sane check (
        duplicate_detection_history_time_window between interval '20 seconds' and interval '7 days'),
    add constraint max_queue_length_is_positive check (max_queue_length > 0),
    add constraint retain_history_fits check (retain_history between interval '1 minute' and interval '60 days');

-- `expires_at` is null for what never expires; the `time_to_live` that led to it runs anew when a dead letter is
-- resubmitted. `first_locked_at` is kept in queues that retain history.
alter table pgqueue.message
    add column expires_at      timestamptz,
    add column time_to_live    interval,
    add column first_locked_at timestamptz;

alter table pgqueue.scheduled_message
    add column expires_at      timestamptz,
    add column time_to_live    interval,
    add column first_locked_at timestamptz;

alter table pgqueue.dead_letter
    add column time_to_live    interval;

-- The message ids that were sent to queues with duplicate detection, until their window is over.
create table pgqueue.sent_message_id (
    queue_id        integer     not null,
    message_id      text        not null,
    sequence_number bigint      not null,
    sent_at         timestamptz not null,
    constraint sent_message_id_pkey primary key (queue_id, message_id)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000);

create index sent_message_id_age on pgqueue.sent_message_id (queue_id, sent_at);

-- What was done outside of the database for a message, recorded in the transaction that completes it.
create table pgqueue.recorded_effect (
    queue_id    integer     not null,
    message_id  text        not null,
    effect      text        not null,
    result      jsonb,
    recorded_at timestamptz not null,
    forget_at   timestamptz not null,
    constraint recorded_effect_pkey primary key (queue_id, message_id, effect)
);

create index recorded_effect_age on pgqueue.recorded_effect (queue_id, forget_at);

-- What became of the messages of queues that retain history: a ring of 64 partitions, one a day, so that nothing has
-- to be created in time, and a day is given back by TRUNCATE. `transaction_id` orders what `settled_at` cannot: the
-- rows of every transaction below the oldest one that is open are final.
create table pgqueue.settled_message (
    slot            smallint    not null,
    priority        smallint    not null,
    queue_id        integer     not null,
    sequence_number bigint      not null,
    transaction_id  xid8        not null,
    settled_at      timestamptz not null,
    enqueued_time   timestamptz not null,
    first_locked_at timestamptz,
    delivery_count  integer     not null,
    body_size       integer     not null,
    outcome         text        not null,
    reason          text,
    locked_by       text,
    message_id      text,
    correlation_id  text,
    subject         text,
    content_type    text
) partition by list (slot);

do $$
begin
    for slot in 0 .. 63 loop
        execute format(
            'create table pgqueue.settled_message_%1$s partition of pgqueue.settled_message for values in (%2$s)',
            lpad(slot::text, 2, '0'), slot);
    end loop;
end
$$;

-- Block ranges: what is appended in the order of time needs no tree, and costs a settlement next to nothing.
create index settled_message_time on pgqueue.settled_message using brin (settled_at);
