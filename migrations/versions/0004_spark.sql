-- What was copied into tables of their own and not published yet: a table for each part of a job, and each try at it.
create table pgqueue.staged_batch (
    name      text        not null,
    queue_id  integer     not null,
    job       text        not null,
    staged_at timestamptz not null,
    constraint staged_batch_pkey primary key (name)
);

-- What was published in a queue under a name, so that it is not published again: the parts of a job, until `forget_at`; of a stream
-- the last batch.
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

-- Who takes messages from a queue claim by claim, each a batch of a stream, and how far it has come: the last claim that
-- was made, the one that is worked on, the last one that is settled.
create table pgqueue.consumer (
    name          text        not null,
    queue_id      integer     not null,
    claim         bigint      not null default 0,
    current_claim bigint      not null default 0,
    settled_claim bigint      not null default 0,
    lost_messages bigint      not null default 0,
    created_at    timestamptz not null,
    constraint consumer_pkey primary key (name)
) with (fillfactor = 50);

-- What a consumer has taken, and how to find it again: one token locks all of a claim, `numbers` are the sequence
-- numbers among which it lies, `fresh` those of what had not been delivered before. `completed` is null while the claim
-- is open, and when it was released.
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
