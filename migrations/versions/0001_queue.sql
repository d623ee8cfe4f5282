create schema if not exists pgqueue;

-- One row a queue. `lanes` lists the lanes that any message was ever sent to: two for each
-- priority in use, 2p for what was redelivered and 2p + 1 for what is fresh; scanned in this order.
create table pgqueue.queue (
    id                 integer     not null generated always as identity,
    name               text        not null,
    status             text        not null default 'ACTIVE',
    lock_duration      interval    not null default interval '60 seconds',
    max_delivery_count integer     not null default 10,
    max_message_size   bigint,
    user_metadata      jsonb,
    lanes              smallint[]  not null default '{0,1}',
    fresh_lanes        smallint[]  not null default '{1}',
    created_at         timestamptz not null default clock_timestamp(),
    updated_at         timestamptz not null default clock_timestamp(),
    constraint queue_pkey primary key (id),
    constraint queue_name_is_taken unique (name),
    constraint name_is_valid check (
        name ~ '^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$' and length(name) <= 260),
    constraint status_is_known check (
        status in ('ACTIVE', 'DISABLED', 'SEND_DISABLED', 'RECEIVE_DISABLED')),
    constraint lock_duration_is_sane check (
        lock_duration between interval '1 millisecond' and interval '7 days'),
    constraint max_delivery_count_is_positive check (max_delivery_count > 0),
    constraint max_message_size_is_positive check (max_message_size > 0)
) with (fillfactor = 70);

-- Numbers both the messages and their places in the lanes. Cache 1: the watermark is proved from it.
create sequence pgqueue.sequence_number as bigint cache 1;

-- What can be received or is locked. A fresh message stands at the position of its number; one that
-- came back stands where it came back. No index holds a column that a claim writes, so a claim is a
-- HOT update; it lengthens the row, so less than half of a page is filled. `locked_until` is null while
-- nobody has claimed the message at this position; a message whose lock expired keeps its token until
-- somebody else takes it.
--
-- No check constraints: PostgreSQL parses them anew in every statement, a fifth of the throughput here.
-- What they would say, pgqueue.broken_invariants() says.
create table pgqueue.message (
    sequence_number        bigint      not null,
    position               bigint      not null,
    enqueued_time          timestamptz not null,
    locked_until           timestamptz,
    queue_id               integer     not null,
    delivery_count         integer     not null default 0,
    lane                   smallint    not null,
    lock_token             uuid,
    locked_by              text,
    body                   jsonb,
    binary_body            bytea,
    message_id             text,
    correlation_id         text,
    subject                text,
    content_type           text,
    reply_to               text,
    application_properties jsonb,
    constraint message_pkey primary key (queue_id, lane, position)
) with (
    fillfactor = 45,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_insert_scale_factor = 10,
    autovacuum_analyze_scale_factor = 10
);

-- Not unique, nor are the numbers of scheduled messages and dead letters: were the sequence to go back, a number may be
-- handed out twice before that is mended, and a queue must not come to a halt over it.
create index returned_message on pgqueue.message (queue_id, sequence_number) where lane % 2 = 0;

-- How far each lane has been consumed, refreshed about once a second by whoever receives.
--
-- `horizon` is a number that had been handed out a while ago; who held a smaller one then has an older transaction
-- than `horizon_xid`. The cursor follows the horizon. Everything at or below it is claimed, gone or in pgqueue.watch,
-- or is still to come from a transaction in `awaited`: one that was open when the cursor went by. What such a
-- transaction brings lies above its place in `awaited_above`.
create table pgqueue.progress (
    queue_id         integer     not null,
    lane             smallint    not null,
    cursor           bigint      not null default 0,
    horizon          bigint      not null default 0,
    horizon_xid      xid8        not null default '0',
    horizon_taken_at timestamptz not null default '-infinity',
    awaited          xid8[]      not null default '{}',
    awaited_above    bigint[]    not null default '{}',
    constraint progress_pkey primary key (queue_id, lane),
    constraint progress_of_a_queue foreign key (queue_id) references pgqueue.queue on delete cascade
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- Messages that the cursor has passed while they were still there: looked at again when due.
create table pgqueue.watch (
    queue_id integer     not null,
    lane     smallint    not null,
    position bigint      not null,
    due      timestamptz not null,
    constraint watch_pkey primary key (queue_id, lane, position)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

create index watch_due on pgqueue.watch (queue_id, due);

-- Messages that must not be received before their time: they never lie in a claim's way.
create table pgqueue.scheduled_message (
    like pgqueue.message including defaults,
    scheduled_enqueue_time timestamptz not null,
    constraint scheduled_message_pkey primary key (queue_id, sequence_number, position)
);

create index scheduled_message_due on pgqueue.scheduled_message (queue_id, scheduled_enqueue_time);

create table pgqueue.dead_letter (
    like pgqueue.message including defaults,
    dead_letter_reason            text        not null,
    dead_letter_error_description text,
    dead_lettered_at              timestamptz not null,
    constraint dead_letter_pkey primary key (queue_id, sequence_number, position)
);

-- Which functions and views are installed, so that a migration with nothing new writes nothing.
create table pgqueue.installation (
    only_one           boolean     not null default true,
    definitions_digest text        not null,
    installed_at       timestamptz not null default clock_timestamp(),
    constraint one_installation primary key (only_one),
    constraint only_one_is_true check (only_one)
);
