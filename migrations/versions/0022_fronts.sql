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

insert into pgqueue.front (queue_id, kind)
select id, kind from pgqueue.queue cross join unnest('{DEFERRED,DEAD_LETTERED}'::text[]) as kind;
