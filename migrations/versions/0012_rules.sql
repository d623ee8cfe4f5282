-- The rules of a subscription: a message that any of them matches is stored in it, once. A rule has a filter, which is a JSON path, or
-- a correlation filter, that is, values of some fields of a message. These are `fields`, in the order of their names; `equals` has
-- their values; a property's name begins with `application_properties.`. Without any field it matches every message. An SQL filter
-- is kept beside the JSON path that it was translated to.
create table pgqueue.rule (
    queue_id           integer     not null,
    topic_id           integer     not null,
    name               text        not null,
    correlation_filter jsonb,
    json_path_filter   text,
    sql_filter         text,
    fields             text[]      collate "C",
    equals             jsonb,
    path               jsonpath,
    set_properties     jsonb,
    created_at         timestamptz not null,
    constraint rule_pkey primary key (queue_id, name),
    constraint rule_of_a_subscription foreign key (queue_id) references pgqueue.subscription on delete cascade,
    constraint is_one_filter check (num_nonnulls(equals, path) = 1),
    constraint equals_has_fields check ((equals is null) = (fields is null)),
    constraint path_is_as_given check ((path is null) = (json_path_filter is null)),
    constraint sql_has_a_path check (sql_filter is null or path is not null)
);

insert into pgqueue.rule (
       queue_id, topic_id, name, correlation_filter, json_path_filter, fields, equals, path, set_properties, created_at)
select queue_id, topic_id, '$Default', correlation_filter, json_path_filter, fields, equals, path, set_properties, created_at
  from pgqueue.subscription;

-- The hash and not the values: these may be too long for an index.
create index rule_equals on pgqueue.rule (topic_id, fields, jsonb_hash_extended(equals, 0)) where equals is not null;
create index rule_path on pgqueue.rule (topic_id) where path is not null;

-- The view and the functions that read these columns are replaced in the same transaction.
drop view if exists pgqueue.subscriptions;
alter table pgqueue.subscription
    drop column correlation_filter,
    drop column json_path_filter,
    drop column fields,
    drop column equals,
    drop column path,
    drop column set_properties;
