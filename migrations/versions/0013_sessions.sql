-- Whether the messages of the queue belong to sessions, each received in its order by one receiver at a time.
alter table pgqueue.queue add column requires_session boolean not null default false;

-- The session of a message. In a queue that requires sessions, messages wait in lane 2000; in others it is a plain property.
alter table pgqueue.message add column session_id text;
alter table pgqueue.scheduled_message add column session_id text;
alter table pgqueue.dead_letter add column session_id text;
alter table pgqueue.settled_message add column session_id text;
alter table pgqueue.schedule add column session_id text;
alter type pgqueue.received_message add attribute session_id text;

-- No statistics of what senders have written; see revision 0010.
alter table pgqueue.message alter column session_id set statistics 0;
alter table pgqueue.scheduled_message alter column session_id set statistics 0;
alter table pgqueue.dead_letter alter column session_id set statistics 0;
alter table pgqueue.settled_message alter column session_id set statistics 0;

-- Sessions that are locked, have state, or had messages when they were released. Only receivers come here. A settlement holds
-- the row with FOR KEY SHARE until its transaction ends, so the session is not accepted meanwhile.
--
-- No message of the session will appear at or below `cursor`. The cursor follows `horizon`, a number that had been drawn a
-- while ago; whoever drew a smaller one has an older transaction than `horizon_xid`.
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

-- The sessions that may have messages, and from when on each may be accepted. A sender only holds a row with FOR KEY SHARE, or
-- adds one; so it waits for nobody, and there may be several rows for a session.
create table pgqueue.waiting_session (
    queue_id     integer     not null,
    session_id   text        not null,
    available_at timestamptz not null
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

create index waiting_session_available on pgqueue.waiting_session (queue_id, available_at);
create index waiting_session_by_id on pgqueue.waiting_session (queue_id, session_id);

alter table pgqueue.session alter column state set statistics 0, alter column binary_state set statistics 0;

-- A session as its holder gets it.
create type pgqueue.accepted_session as (
    session_id   text,
    lock_token   uuid,
    locked_until timestamptz,
    state        jsonb,
    binary_state bytea
);
