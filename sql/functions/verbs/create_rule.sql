-- Creates a rule of a subscription, which then also stores the messages that the rule's filter matches. A message that several rules match is
-- stored once, with the `set_properties` of all of them; if several set the same property, that of the last rule by name. Filters are those
-- of pgqueue.create_subscription, whose own is that of the rule $Default; without a filter every message matches.
-- Raises  PQ002 unknown queue, PQ007 invalid argument, PQ040 unknown topic, PQ044 rule already exists.
-- Locks   the subscription against being dropped; senders and receivers do not wait.
create or replace function pgqueue.create_rule(
    topic              text,
    subscription       text,
    rule               text,
    correlation_filter jsonb default null,
    json_path_filter   text  default null,
    sql_filter         text  default null,
    set_properties     jsonb default null
)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    known   pgqueue.subscription;
    created pgqueue.rule;
begin
    perform pgqueue._check_admin(topic, 'topic');
    perform pgqueue._check_name('rule', rule);
    created := pgqueue._read_filter(correlation_filter, json_path_filter, sql_filter, set_properties);
    known   := pgqueue._lock_subscription(topic, subscription);
    created.queue_id   := known.queue_id;
    created.topic_id   := known.topic_id;
    created.name       := rule;
    created.created_at := pgqueue.clock();
    insert into pgqueue.rule select created.* on conflict on constraint rule_pkey do nothing;
    if not found then
        perform pgqueue._refuse(
            'PQ044', format('%I has a rule %I already', pgqueue._subscription_queue(topic, subscription), rule),
            'Change it with pgqueue.alter_rule.');
    end if;
end
$$;
