-- Sessions that are locked, have state, or had messages when they were released. Only receivers write here. A settlement holds
-- the row with FOR KEY SHARE until its transaction ends, so the session is not accepted meanwhile.
--
-- No message of the session will appear at or below `cursor`. The cursor follows `horizon`, a number that had been drawn a
-- while ago; a transaction that drew a smaller one is older than `horizon_xid`.
create table pgqueue.session (
    queue_id         integer     not null,
    session_id       text        not null,
    lock_token       uuid,
    locked_until     timestamptz,
    locked_by        text,
    state            jsonb,
    binary_state     bytea,
    cursor           bigint      not null default 0,
    horizon          bigint      not null default 0,
    horizon_xid      xid8        not null default '0',
    horizon_taken_at timestamptz not null,
    constraint session_pkey primary key (queue_id, session_id),
    constraint session_has_one_state check (num_nonnulls(state, binary_state) <= 1),
    constraint locked_session_has_token check ((locked_until is null) = (lock_token is null))
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

alter table pgqueue.session alter column state set statistics 0, alter column binary_state set statistics 0;

-- The sessions that may have messages, and from when on each may be accepted. A sender only holds a row with FOR KEY SHARE, or
-- adds one; so it never waits, and there may be several rows for a session. `changed_by` is the transaction that has written
-- the row last: the newest version of the rows of a session lies at the end of the index.
create table pgqueue.waiting_session (
    queue_id     integer     not null,
    session_id   text        not null,
    available_at timestamptz not null,
    changed_by   xid8        not null default pg_current_xact_id()
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

create index waiting_session_available on pgqueue.waiting_session (queue_id, available_at);
create index waiting_session_by_id on pgqueue.waiting_session (queue_id, session_id, changed_by);

-- A session as its holder gets it.
create type pgqueue.accepted_session as (
    session_id   text,
    lock_token   uuid,
    locked_until timestamptz,
    state        jsonb,
    binary_state bytea
);
