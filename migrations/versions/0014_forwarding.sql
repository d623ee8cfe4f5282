-- The queues to which a queue forwards its messages, and its dead letters; null for none.
alter table pgqueue.queue
    add column forward_to                        integer,
    add column forward_dead_lettered_messages_to integer,
    add constraint forwards_to_a_queue foreign key (forward_to) references pgqueue.queue,
    add constraint forwards_dead_letters_to_a_queue foreign key (forward_dead_lettered_messages_to) references pgqueue.queue,
    add constraint forwards_to_another_queue check (forward_to <> id and forward_dead_lettered_messages_to <> id);

create index queue_forward_to on pgqueue.queue (forward_to) where forward_to is not null;
create index queue_forward_dead_lettered_messages_to on pgqueue.queue (forward_dead_lettered_messages_to)
    where forward_dead_lettered_messages_to is not null;

-- Queues that others forward to, now or earlier. Whoever forwards a message to one locks its row until the transaction
-- ends, so that nobody drops the queue meanwhile. A table of its own, because the row of a queue is often updated.
create table pgqueue.forwarding_target (
    queue_id integer not null,
    constraint forwarding_target_pkey primary key (queue_id),
    constraint target_is_a_queue foreign key (queue_id) references pgqueue.queue on delete cascade
);

-- When it was last changed which queue forwards to which, in one row. Each change updates it, so that one follows the
-- other, and none is checked against an old snapshot: two at once cannot close a cycle.
create table pgqueue.forwarding_change (
    only_one   boolean     not null default true,
    changed_at timestamptz not null,
    constraint forwarding_change_pkey primary key (only_one),
    constraint there_is_only_one check (only_one)
);

insert into pgqueue.forwarding_change (changed_at) values (clock_timestamp());

-- How often the message was forwarded since it was sent or resubmitted; null for never.
alter table pgqueue.message           add column hops smallint;
alter table pgqueue.scheduled_message add column hops smallint;

-- Where the message died before it was forwarded as a dead letter, and of what: {queue, reason, description,
-- dead_lettered_at, delivery_count}.
alter table pgqueue.failed_message add column forwarded_from jsonb;
