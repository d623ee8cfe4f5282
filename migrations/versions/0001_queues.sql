create schema if not exists pgqueue;

-- Which functions and views are installed, so that a migration with nothing new writes nothing.
create table pgqueue.installation (
    only_one           boolean     not null default true,
    definitions_digest text        not null,
    installed_at       timestamptz not null default clock_timestamp(),
    constraint one_installation primary key (only_one),
    constraint only_one_is_true check (only_one)
);

-- One row a queue. `lanes` lists the lanes that any message was ever sent to: two for each priority in use, 2p for
-- redelivered messages and 2p + 1 for fresh ones; scanned in this order.
--
-- `awaited_until` is a bound of the times in pgqueue.waiting_consumer: senders read this row anyway. `retain_errors` is the
-- number of errors kept of each message; null keeps the last only. `senders` and `receivers` are roles by name: a dump
-- restored elsewhere keeps them, whatever the roles' ids are there.
create table pgqueue.queue (
    id                                      integer     not null generated always as identity,
    name                                    text        not null,
    status                                  text        not null default 'ACTIVE',
    lock_duration                           interval    not null default interval '60 seconds',
    max_delivery_count                      integer     not null default 10,
    max_message_size                        bigint,
    user_metadata                           jsonb,
    lanes                                   smallint[]  not null default '{0,1}',
    fresh_lanes                             smallint[]  not null default '{1}',
    created_at                              timestamptz not null default clock_timestamp(),
    updated_at                              timestamptz not null default clock_timestamp(),
    awaited_until                           timestamptz,
    default_message_time_to_live            interval,
    dead_lettering_on_message_expiration    boolean     not null default false,
    requires_duplicate_detection            boolean     not null default false,
    duplicate_detection_history_time_window interval    not null default interval '10 minutes',
    max_queue_length                        bigint,
    retain_history                          interval,
    retain_errors                           integer,
    senders                                 text[]      not null default '{}',
    receivers                               text[]      not null default '{}',
    auto_delete_on_idle                     interval,
    requires_session                        boolean     not null default false,
    forward_to                              integer,
    forward_dead_lettered_messages_to       integer,
    paused_at                               timestamptz,
    max_receive_rate                        double precision,
    max_concurrent                          integer,
    priority_ageing                         interval,
    constraint queue_pkey primary key (id),
    constraint queue_name_is_taken unique (name),
    constraint name_is_valid check (
        name ~ '^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$' and length(name) <= 260),
    constraint status_is_known check (
        status in ('ACTIVE', 'DISABLED', 'SEND_DISABLED', 'RECEIVE_DISABLED')),
    constraint lock_duration_is_sane check (
        lock_duration between interval '1 millisecond' and interval '7 days'),
    constraint max_delivery_count_is_positive check (max_delivery_count > 0),
    constraint max_message_size_is_positive check (max_message_size > 0),
    constraint default_message_time_to_live_is_positive check (default_message_time_to_live > interval '0'),
    constraint duplicate_detection_history_time_window_is_sane check (
        duplicate_detection_history_time_window between interval '20 seconds' and interval '7 days'),
    constraint max_queue_length_is_positive check (max_queue_length > 0),
    constraint retain_history_fits check (retain_history between interval '1 minute' and interval '60 days'),
    constraint retain_errors_fits check (retain_errors between 1 and 100),
    constraint auto_delete_on_idle_fits check (auto_delete_on_idle between interval '5 minutes' and interval '100 years'),
    constraint forwards_to_a_queue foreign key (forward_to) references pgqueue.queue,
    constraint forwards_dead_letters_to_a_queue foreign key (forward_dead_lettered_messages_to) references pgqueue.queue,
    constraint forwards_to_another_queue check (forward_to <> id and forward_dead_lettered_messages_to <> id),
    constraint max_receive_rate_fits check (max_receive_rate between 0.001 and 10000),
    constraint max_concurrent_fits check (max_concurrent between 1 and 10000),
    constraint priority_ageing_fits check (priority_ageing between interval '1 second' and interval '30 days')
) with (fillfactor = 70);

create index queue_forward_to on pgqueue.queue (forward_to) where forward_to is not null;
create index queue_forward_dead_lettered_messages_to on pgqueue.queue (forward_dead_lettered_messages_to)
    where forward_dead_lettered_messages_to is not null;

-- The queues that were dropped: a message sent to one by a transaction that still sees it belongs to no queue. A new queue
-- of the same name wakes the consumers that waited until `awaited_until`.
create table pgqueue.dropped_queue (
    queue_id      integer     not null,
    dropped_at    timestamptz not null,
    name          text,
    awaited_until timestamptz,
    constraint dropped_queue_pkey primary key (queue_id)
);

create index dropped_queue_name on pgqueue.dropped_queue (name);

-- When each queue with `auto_delete_on_idle` was last used, to a twentieth of that period. A table of its own, because the
-- transaction of a send locks the row until it ends, and others change the row of the queue meanwhile.
create table pgqueue.queue_use (
    queue_id integer     not null,
    used_at  timestamptz not null,
    constraint queue_use_pkey primary key (queue_id),
    constraint use_of_a_queue foreign key (queue_id) references pgqueue.queue on delete cascade
) with (fillfactor = 50);

-- Until when consumers wait for messages of a queue. No foreign key: that would lock the queue's row at each subscription.
--
-- This table and others here have a growing column in their primary key (`waits_until`, `turn`, `position`, `beat`,
-- `changed_by`). Their rows are rewritten all the time and looked up often. While a transaction holds a snapshot the old
-- versions of a row stay, and a lookup by an unchanged key walks over all of them. With a growing key the newest row lies
-- at the end of the index, and older versions are not read.
create table pgqueue.waiting_consumer (
    queue_id    integer     not null,
    waits_until timestamptz not null,
    constraint waiting_consumer_pkey primary key (queue_id, waits_until)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- Queues that others forward to, now or earlier. A transaction that forwards a message to one locks its row until it ends,
-- so the queue is not dropped meanwhile. A table of its own, because the row of a queue is often updated.
create table pgqueue.forwarding_target (
    queue_id integer not null,
    constraint forwarding_target_pkey primary key (queue_id),
    constraint target_is_a_queue foreign key (queue_id) references pgqueue.queue on delete cascade
);

-- When it was last changed which queue forwards to which, in one row. Each change updates it, so changes follow each other,
-- and none is checked against an old snapshot: two at once cannot close a cycle.
create table pgqueue.forwarding_change (
    only_one   boolean     not null default true,
    changed_at timestamptz not null,
    constraint forwarding_change_pkey primary key (only_one),
    constraint there_is_only_one check (only_one)
);

insert into pgqueue.forwarding_change (changed_at) values (clock_timestamp());

-- A row for each queue with limits. Receives lock it, so they follow each other; it is never rewritten. When the bucket of a
-- queue with a `max_receive_rate` is full again is kept in a sequence, pgqueue.full_at_<id>: setting it takes effect at once,
-- and a rollback does not undo it.
create table pgqueue.flow (
    queue_id integer not null,
    constraint flow_pkey primary key (queue_id),
    constraint flow_of_a_queue foreign key (queue_id) references pgqueue.queue on delete cascade
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 100);

-- The messages that count towards `max_concurrent`: those that were handed out, until a later receive finds that their lock
-- is over. They lie in the order in which they were taken. The last row of each queue is the end of them, without a
-- message: it moves behind each slot that is taken, and its `first_position` is the place of the first one.
create table pgqueue.slot (
    queue_id        integer not null,
    sequence_number bigint,
    lock_token      uuid,
    position        bigint  not null,
    first_position  bigint,
    taken_at        timestamptz,
    constraint slot_pkey primary key (queue_id, position)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
