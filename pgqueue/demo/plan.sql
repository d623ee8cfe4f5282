create schema pgqueue_demo;

-- The input. Each row is inserted in the transaction that sends its message.
create table pgqueue_demo.flight (
    id          integer     not null primary key,
    scheduled   timestamp   not null,
    carrier     text        not null,
    number      integer     not null,
    origin      text        not null,
    destination text        not null,
    delay       integer,                 -- minutes; null: cancelled
    sent_at     timestamptz not null default clock_timestamp()
);

-- The work: a few rows that every worker wants to change.
create table pgqueue_demo.ledger (
    airport     text        not null,
    carrier     text        not null,
    flights     bigint      not null,
    cancelled   bigint      not null,
    late        bigint      not null,
    minutes     bigint      not null,
    primary key (airport, carrier)
) with (fillfactor = 20);

-- Every posting leaves a row. Nothing here is unique on purpose: a flight that was posted twice shall be seen.
create table pgqueue_demo.posting (
    flight_id      integer     not null,
    delivery_count integer     not null,
    worker         text        not null,
    posted_at      timestamptz not null default clock_timestamp()
);

-- A row for each try of a transaction that was aborted, written by the try on the same lock that was committed.
create table pgqueue_demo.retry (
    worker         text        not null,
    cause          text        not null
);

-- The transactions in the middle of which a worker process was killed.
create table pgqueue_demo.kill (
    worker         text        not null,
    transaction_id xid8        not null
);

-- pg_stat_activity shows the lower 32 bits of a transaction id; the whole of it is the one nearest to the present.
create function pgqueue_demo.transaction_id(shown bigint, present xid8) returns xid8 language sql immutable
return (present::text::bigint + ((shown - present::text::bigint + 2147483648) & 4294967295) - 2147483648)::text::xid8;
