-- Changes a rule of a subscription. A null changes nothing. A filter replaces the former one, of whichever kind; the correlation filter
-- '{}' matches every message, and '{}' removes `set_properties`. Messages that are in the subscription stay there, and each message that
-- is sent meanwhile meets either the old rule or the new one.
-- Raises  PQ002 unknown queue, PQ007 invalid argument, PQ040 unknown topic, PQ043 unknown rule.
-- Locks   the rule, and the subscription against being dropped, until the transaction ends; senders and receivers do not wait.
create or replace function pgqueue.alter_rule(
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
#variable_conflict use_column
declare
    known     pgqueue.subscription;
    given     pgqueue.rule;
    is_filter boolean := num_nonnulls(alter_rule.correlation_filter, alter_rule.json_path_filter) > 0;
begin
    perform pgqueue._check_admin(topic, 'topic');
    given := pgqueue._read_filter(
        alter_rule.correlation_filter, alter_rule.json_path_filter, alter_rule.sql_filter, alter_rule.set_properties);
    known := pgqueue._lock_subscription(topic, subscription);
    update pgqueue.rule as former
       set (correlation_filter, json_path_filter, sql_filter, fields, equals, path) =
               (select (changed).correlation_filter, (changed).json_path_filter, (changed).sql_filter, (changed).fields,
                       (changed).equals, (changed).path
                  from (select case when is_filter then given else former end as changed) as chosen),
           set_properties = case when given.set_properties is null then former.set_properties else nullif(given.set_properties, '{}') end
     where queue_id = known.queue_id and name = alter_rule.rule;
    if not found then
        perform pgqueue._refuse_unknown_rule(pgqueue._subscription_queue(topic, subscription), alter_rule.rule);
    end if;
end
$$;
