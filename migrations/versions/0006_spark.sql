-- Messages that were copied into tables of their own and not published yet: a table for each part of a job, and each try at it.
create table pgqueue.staged_batch (
    name      text        not null,
    queue_id  integer     not null,
    job       text        not null,
    staged_at timestamptz not null,
    constraint staged_batch_pkey primary key (name)
);

-- Batches that were published in a queue under a name, so that they are not published again: the parts of a job, until
-- `forget_at`; of a stream the last batch.
create table pgqueue.published_batch (
    queue_id     integer     not null,
    publisher    text        not null,
    part         bigint      not null,
    sent         bigint      not null,
    duplicates   bigint      not null,
    published_at timestamptz not null,
    forget_at    timestamptz,
    constraint published_batch_pkey primary key (queue_id, publisher, part)
);

create index published_batch_age on pgqueue.published_batch (queue_id, forget_at);

-- Rows that publishers lock: the hash of queue, publisher and part selects one. A lock on a row takes a right on the table;
-- advisory locks are open to every role.
create table pgqueue.publishing_lock (
    slot smallint not null,
    constraint publishing_lock_pkey primary key (slot)
);

insert into pgqueue.publishing_lock (slot)
select generate_series(0, 255);

-- Consumers that take messages from a queue claim by claim, each a batch of a stream, and how far each has come: the last
-- claim that was made, and the last one that is settled.
--
-- `epoch` is the fencing token: each session that attaches draws a larger one, and only the last one drawn may settle claims.
-- The process of that session, `attached_pid`, holds the advisory lock with `attached_key`, which is drawn anew each time.
create table pgqueue.consumer (
    name          text        not null,
    queue_id      integer     not null,
    claim         bigint      not null default 0,
    settled_claim bigint      not null default 0,
    lost_messages bigint      not null default 0,
    created_at    timestamptz not null,
    epoch         bigint      not null default 0,
    attached_pid  integer,
    attached_key  bigint,
    constraint consumer_pkey primary key (name)
) with (fillfactor = 50);

-- The claims of a consumer, and how to find their messages again: one token locks all of a claim, `numbers` are the sequence
-- numbers among which it lies, `fresh` those of messages that had not been delivered before. `completed` is null while the
-- claim is open, and when it was released.
create table pgqueue.claim (
    consumer   text        not null,
    claim      bigint      not null,
    lock_token uuid        not null,
    messages   bigint      not null,
    numbers    int8range   not null,
    fresh      int8range   not null,
    claimed_at timestamptz not null,
    settled_at timestamptz,
    completed  bigint,
    constraint claim_pkey primary key (consumer, claim),
    constraint claim_of_a_consumer foreign key (consumer) references pgqueue.consumer on delete cascade
) with (fillfactor = 50);
