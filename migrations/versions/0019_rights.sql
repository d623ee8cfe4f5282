-- One row: what proves that a note in a setting of a session was written by a function of ours.
create table pgqueue.secret (
    key bytea not null
);

insert into pgqueue.secret (key)
values (uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));

-- Tables without rows, each locked as a whole by the one who does what it is named after. Advisory locks are open to every
-- role; a lock on a table takes a right on it. Nothing is written to lock a table.
create table pgqueue.sweep_lock ();
create table pgqueue.sample_lock ();
create table pgqueue.repair_lock ();

-- Rows that are locked by those who publish; which one, the hash of queue, publisher and part says.
create table pgqueue.publishing_lock (
    slot smallint not null,
    constraint publishing_lock_pkey primary key (slot)
);

insert into pgqueue.publishing_lock (slot)
select generate_series(0, 255);

-- Who works for a consumer: the process of the session that attached last holds the advisory lock with this key, which is
-- drawn anew each time.
alter table pgqueue.consumer
    add column attached_pid integer,
    add column attached_key bigint;
