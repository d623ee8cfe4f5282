-- Numbers both the messages and their places in the lanes. Cache 1: the watermark is proved from it.
create sequence pgqueue.sequence_number as bigint cache 1;

-- Messages that can be received or are locked. A fresh message stands at the position of its number; one that came back
-- stands where it came back. No index holds a column that a claim writes, so a claim is a HOT update; it lengthens the row,
-- so less than half of a page is filled. `locked_until` is null until the message at this position is first claimed; a
-- message whose lock expired keeps its token until the next claim.
--
-- `expires_at` is null for messages that never expire; the `time_to_live` that led to it runs anew when a dead letter is
-- resubmitted. `first_locked_at` is kept in queues that retain history. `hops` counts how often the message was forwarded
-- since it was sent or resubmitted; null for never. In a queue that requires sessions, messages wait in lane 2000; in others
-- `session_id` is a plain property.
--
-- No check constraints: PostgreSQL parses them anew in every statement, a fifth of the throughput here.
-- pgqueue.broken_invariants() checks the same conditions.
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
    expires_at             timestamptz,
    time_to_live           interval,
    first_locked_at        timestamptz,
    session_id             text,
    hops                   smallint,
    reply_to_session_id    text,
    "to"                   text,
    partition_key          text,
    constraint message_pkey primary key (queue_id, lane, position)
) with (
    fillfactor = 45,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_insert_scale_factor = 10,
    autovacuum_analyze_scale_factor = 10
);

-- Not unique, nor are the numbers of scheduled messages and dead letters: were the sequence to go back, a number may be
-- handed out twice before the sequence is repaired, and the queue must go on meanwhile.
create index returned_message on pgqueue.message (queue_id, sequence_number) where lane % 2 = 0;

-- Messages that must not be received before their time: claims never come across them.
create table pgqueue.scheduled_message (
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
    scheduled_enqueue_time timestamptz not null,
    expires_at             timestamptz,
    time_to_live           interval,
    first_locked_at        timestamptz,
    session_id             text,
    hops                   smallint,
    reply_to_session_id    text,
    "to"                   text,
    partition_key          text,
    constraint scheduled_message_pkey primary key (queue_id, sequence_number, position)
);

create index scheduled_message_due on pgqueue.scheduled_message (queue_id, scheduled_enqueue_time);

create table pgqueue.dead_letter (
    sequence_number               bigint      not null,
    position                      bigint      not null,
    enqueued_time                 timestamptz not null,
    locked_until                  timestamptz,
    queue_id                      integer     not null,
    delivery_count                integer     not null default 0,
    lane                          smallint    not null,
    lock_token                    uuid,
    locked_by                     text,
    body                          jsonb,
    binary_body                   bytea,
    message_id                    text,
    correlation_id                text,
    subject                       text,
    content_type                  text,
    reply_to                      text,
    application_properties        jsonb,
    dead_letter_reason            text        not null,
    dead_letter_error_description text,
    dead_lettered_at              timestamptz not null,
    time_to_live                  interval,
    session_id                    text,
    reply_to_session_id           text,
    "to"                          text,
    partition_key                 text,
    constraint dead_letter_pkey primary key (queue_id, sequence_number, position)
);

-- Earlier failures of messages: a row for each that has failed with an error or was resubmitted, whichever table the message
-- is in. It goes with the message. A message in a lane of fresh messages never has one, so sending, receiving and completing
-- such messages does not read this table. A transaction that writes a row holds that of the message.
--
-- An error is {type, text, traceback, delivery_count, failed_at, locked_by}. `last_error` is that of the deliveries since
-- the message was sent or resubmitted; `delivery_log`, the oldest error first, survives a resubmission. `forwarded_from` is
-- where the message died before it was forwarded as a dead letter, and why: {queue, reason, description, dead_lettered_at,
-- delivery_count}.
create table pgqueue.failed_message (
    queue_id         integer not null,
    sequence_number  bigint  not null,
    last_error       jsonb,
    delivery_log     jsonb,
    resubmitted_from jsonb,
    forwarded_from   jsonb,
    constraint failed_message_pkey primary key (queue_id, sequence_number)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- How far each lane has been consumed, refreshed by receives about once a second. There is one row for each lane; `turn` is
-- the turn that has moved the cursor last.
--
-- `horizon` is a number that had been handed out a while ago; a transaction that held a smaller one then is older than
-- `horizon_xid`. The cursor follows the horizon. Everything at or below it is claimed, gone or in pgqueue.watch, or is
-- still to come from a transaction in `awaited`: one that was open when the cursor went by. Messages of such a transaction
-- lie above its place in `awaited_above`.
--
-- With priority ageing, `mark_numbers` has the last number drawn at each of `mark_times`, for as long as messages wait in the
-- lane. A message with a smaller position has been there since then.
create table pgqueue.progress (
    queue_id         integer     not null,
    lane             smallint    not null,
    cursor           bigint      not null default 0,
    horizon          bigint      not null default 0,
    horizon_xid      xid8        not null default '0',
    horizon_taken_at timestamptz not null default '-infinity',
    awaited          xid8[]      not null default '{}',
    awaited_above    bigint[]    not null default '{}',
    mark_times       timestamptz[],
    mark_numbers     bigint[],
    turn             bigint      not null default 0,
    constraint progress_pkey primary key (queue_id, lane, turn),
    constraint progress_of_a_queue foreign key (queue_id) references pgqueue.queue on delete cascade
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- Messages that were still there when the cursor went by: they are read again when due.
create table pgqueue.watch (
    queue_id integer     not null,
    lane     smallint    not null,
    position bigint      not null,
    due      timestamptz not null,
    constraint watch_pkey primary key (queue_id, lane, position)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

create index watch_due on pgqueue.watch (queue_id, due);

-- From where on due rows of a queue are looked for, a row for each kind: scheduled messages, the watch list, sessions that wait.
-- `horizon` is a time at which all open transactions had ids below `horizon_xid`; rows of later ones are due after it. No row is
-- due before `due_from`, or it is to come from a transaction in `awaited`: one that was open when `due_from` moved. Its rows
-- are due at its place in `awaited_from` or later.
create table pgqueue.scheduled_progress (
    queue_id     integer       not null,
    due_from     timestamptz   not null default '-infinity',
    horizon      timestamptz   not null default '-infinity',
    horizon_xid  xid8          not null default '0',
    awaited      xid8[]        not null default '{}',
    awaited_from timestamptz[] not null default '{}',
    kind         text          not null default 'MESSAGE',
    turn         bigint        not null default 0,
    constraint scheduled_progress_pkey primary key (queue_id, kind, turn),
    constraint scheduled_progress_of_a_queue foreign key (queue_id) references pgqueue.queue on delete cascade
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 100);

-- Where the dead letters, and the deferred messages, of a queue begin. All transactions that were open when `horizon` was read, as
-- the last number that the sequence had handed out, had ids below `horizon_xid`. DEFERRED: no message has a position up to
-- `reached`. DEAD_LETTERED: none that has such a position has a number below `first_number`. Or it comes from a transaction in
-- `awaited`, one that was open when `reached` moved; its messages have positions above its place in `awaited_above`.
create table pgqueue.front (
    queue_id         integer     not null,
    kind             text        not null collate "C",
    turn             bigint      not null default 0,
    reached          bigint      not null default 0,
    first_number     bigint      not null default 0,
    horizon          bigint      not null default 0,
    horizon_xid      xid8        not null default '0',
    horizon_taken_at timestamptz not null default '-infinity',
    awaited          xid8[]      not null default '{}',
    awaited_above    bigint[]    not null default '{}',
    constraint front_pkey primary key (queue_id, kind, turn),
    constraint front_of_a_queue foreign key (queue_id) references pgqueue.queue on delete cascade
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 100);

-- How far sweeps have come in queues in which they have read much: dead rows before that point are not read again each minute.
create table pgqueue.sweep_progress (
    queue_id       integer     not null,
    looked_over_at timestamptz not null,
    removed_until  timestamptz not null,
    constraint sweep_progress_pkey primary key (queue_id),
    constraint sweep_progress_of_a_queue foreign key (queue_id) references pgqueue.queue on delete cascade
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 100);

-- The message ids that were sent to queues with duplicate detection, until their window is over.
create table pgqueue.sent_message_id (
    queue_id        integer     not null,
    message_id      text        not null,
    sequence_number bigint      not null,
    sent_at         timestamptz not null,
    constraint sent_message_id_pkey primary key (queue_id, message_id)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000);

create index sent_message_id_age on pgqueue.sent_message_id (queue_id, sent_at);

-- Effects outside of the database of a message, recorded in the transaction that completes it.
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

-- The settled messages of queues that retain history: a ring of 64 partitions, one a day, so that nothing has to be created in
-- time, and a day is given back by TRUNCATE. `transaction_id` orders what `settled_at` cannot: the rows of every transaction
-- below the oldest one that is open are final.
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
    content_type    text,
    session_id      text
) partition by list (slot);

-- A role without the right to create a schema has it created before. "If not exists" wants that right even where the schema is
-- there.
do $$
begin
    if to_regnamespace('pgqueue_history') is null then
        create schema pgqueue_history;
    end if;
    for slot in 0 .. 63 loop
        execute format(
            'create table pgqueue_history.settled_message_%1$s partition of pgqueue.settled_message for values in (%2$s)',
            lpad(slot::text, 2, '0'), slot);
    end loop;
end
$$;

-- Block ranges: rows appended in the order of time need no tree, and the index costs a settlement next to nothing.
create index settled_message_time on pgqueue.settled_message using brin (settled_at);

-- No statistics of columns that senders write: the estimates of EXPLAIN would reveal them to roles that may select from a view.
do $$
declare
    command text;
begin
    for command in
        select format('alter table %s alter column %I set statistics 0', attrelid::regclass, attname)
          from pg_attribute
         where attrelid = any ('{pgqueue.message,pgqueue.dead_letter,pgqueue.scheduled_message,pgqueue.settled_message}'::regclass[])
           and attname in ('body', 'binary_body', 'application_properties', 'message_id', 'correlation_id', 'subject', 'content_type',
                           'reply_to', 'reply_to_session_id', 'to', 'partition_key', 'session_id')
    loop
        execute command;
    end loop;
end
$$;

-- A message as receives and peeks return it. Columns that do not apply are null: `scheduled_enqueue_time` unless the message is
-- scheduled, `lock_token` in a peek, the three columns of dead-lettering unless it is a dead letter, `failures` unless it
-- has failed or was resubmitted. `queue_id`, `lane` and `position` are the engine's: where the message is.
create type pgqueue.received_message as (
    sequence_number               bigint,
    lock_token                    uuid,
    locked_until                  timestamptz,
    locked_by                     text,
    delivery_count                integer,
    enqueued_time                 timestamptz,
    expires_at                    timestamptz,
    scheduled_enqueue_time        timestamptz,
    priority                      smallint,
    is_deferred                   boolean,
    body                          jsonb,
    binary_body                   bytea,
    message_id                    text,
    correlation_id                text,
    subject                       text,
    content_type                  text,
    reply_to                      text,
    application_properties        jsonb,
    dead_letter_reason            text,
    dead_letter_error_description text,
    dead_lettered_at              timestamptz,
    failures                      jsonb,
    queue_id                      integer,
    lane                          smallint,
    position                      bigint,
    session_id                    text,
    reply_to_session_id           text,
    "to"                          text,
    partition_key                 text
);
