-- While a transaction holds a snapshot the old versions of a row stay, and whoever looks it up by its key walks over them. So
-- what changes is part of the key here, and grows: the newest row lies at the end of the index; see revision 0020.

-- From where on scheduled messages are looked for, and by the same proof the watch list and the sessions that wait: there is a row
-- for each kind of what becomes due.
alter table pgqueue.scheduled_progress
    add column kind text not null default 'MESSAGE',
    add column turn bigint not null default 0,
    drop constraint scheduled_progress_pkey,
    add constraint scheduled_progress_pkey primary key (queue_id, kind, turn);

insert into pgqueue.scheduled_progress (queue_id, kind) select id, 'WATCH' from pgqueue.queue;
insert into pgqueue.scheduled_progress (queue_id, kind) select id, 'SESSION' from pgqueue.queue where requires_session;

-- The transaction that has written the row last: the newest version of the rows of a session lies at the end of the index.
alter table pgqueue.waiting_session add column changed_by xid8;
alter table pgqueue.waiting_session alter column changed_by set default pg_current_xact_id();
update pgqueue.waiting_session set changed_by = default;
alter table pgqueue.waiting_session alter column changed_by set not null;

drop index pgqueue.waiting_session_by_id;
create index waiting_session_by_id on pgqueue.waiting_session (queue_id, session_id, changed_by);

-- The workers that are registered. How each is stays in pgqueue.worker, whose rows are rewritten every few seconds: only the newest
-- version of each is looked up.
create table pgqueue.registered_worker (
    id   uuid not null,
    role text not null,
    constraint registered_worker_pkey primary key (id)
);

insert into pgqueue.registered_worker (id, role) select id, role from pgqueue.worker;

alter table pgqueue.worker
    add column beat bigint not null default 0,
    drop constraint worker_pkey,
    add constraint worker_pkey primary key (id, beat);
