-- The groups of a queue that is fair lie where sessions do: in lane 2000, with a row among those that wait.
alter table pgqueue.queue
    add column max_concurrent_per_group integer,
    add column max_receive_rate_per_group double precision,
    add column fair boolean not null default false;

-- How far a group has been received is in its row among those that wait, which each receive writes: no message of it will appear up to
-- `cursor`, but for those of transactions that are awaited. It does not pass `horizon`, a number that had been drawn before the
-- transaction `horizon_xid` began.
alter table pgqueue.waiting_session
    add column cursor           bigint      not null default 0,
    add column horizon          bigint      not null default 0,
    add column horizon_xid      xid8        not null default '0',
    add column horizon_taken_at timestamptz not null default '-infinity',
    add column awaited          xid8[],
    add column awaited_above    bigint[];

-- The limits of single groups, instead of those of their queue: null for those, 0 for none.
create table pgqueue.group_limit (
    queue_id         integer not null,
    group_id         text    not null,
    max_concurrent   integer,
    max_receive_rate double precision,
    constraint group_limit_pkey primary key (queue_id, group_id)
);

-- What groups with limits have handed out: when the bucket of each is full again, and the locks of the messages that take its slots,
-- which may be over. Only a receive writes it, which has locked the session of the same name. The newest version of a row lies at the
-- end of the index, because its `turn` grows.
create table pgqueue.message_group (
    queue_id integer not null,
    group_id text    not null,
    turn     bigint  not null,
    full_at  timestamptz,
    numbers  bigint[],
    tokens   uuid[],
    constraint message_group_pkey primary key (queue_id, group_id, turn)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- How many messages a group may hand out: `places` of them now, or some at `next`.
create type pgqueue.group_room as (
    group_id       text,
    places         integer,
    next           timestamptz,
    max_concurrent integer,
    rate           double precision,
    turn           bigint,
    full_at        timestamptz,
    numbers        bigint[],
    tokens         uuid[]
);
