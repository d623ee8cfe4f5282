-- A message sent to a topic is stored in each of its subscriptions whose filter matches. The roles in `senders` may send to it.
create table pgqueue.topic (
    id         integer     not null generated always as identity,
    name       text        not null,
    senders    text[]      not null default '{}',
    created_at timestamptz not null,
    constraint topic_pkey primary key (id),
    constraint topic_name_is_taken unique (name)
);

-- A subscription is a queue with a filter, which selects the messages of the topic that are stored in it: a JSON path, or a
-- correlation filter, that is, values of some fields of a message. These are `fields`, in the order of their names;
-- `equals` has their values; a property's name begins with `application_properties.`. Without any field it matches
-- every message.
create table pgqueue.subscription (
    queue_id           integer     not null,
    topic_id           integer     not null,
    name               text        not null,
    correlation_filter jsonb,
    json_path_filter   text,
    fields             text[]      collate "C",
    equals             jsonb,
    path               jsonpath,
    set_properties     jsonb,
    created_at         timestamptz not null,
    constraint subscription_pkey primary key (queue_id),
    constraint subscription_is_a_queue foreign key (queue_id) references pgqueue.queue on delete cascade,
    constraint subscription_of_a_topic foreign key (topic_id) references pgqueue.topic,
    constraint subscription_name_is_taken unique (topic_id, name),
    constraint is_one_filter check (num_nonnulls(equals, path) = 1),
    constraint equals_has_fields check ((equals is null) = (fields is null)),
    constraint path_is_as_given check ((path is null) = (json_path_filter is null))
);

-- The hash and not the values: these may be too long for an index.
create index subscription_equals on pgqueue.subscription (topic_id, fields, jsonb_hash_extended(equals, 0)) where equals is not null;
create index subscription_path on pgqueue.subscription (topic_id) where path is not null;
