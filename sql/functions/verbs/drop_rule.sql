-- Drops a rule of a subscription. A subscription without rules gets no messages. Messages that are in it stay there.
-- Raises  PQ002 unknown queue, PQ040 unknown topic, PQ043 unknown rule.
-- Locks   the rule, and the subscription against being dropped; senders and receivers do not wait.
create or replace function pgqueue.drop_rule(topic text, subscription text, rule text)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    changed pgqueue.subscription;
begin
    perform pgqueue._check_admin(topic, 'topic');
    changed := pgqueue._lock_subscription(topic, subscription);
    delete from pgqueue.rule as dropped where queue_id = changed.queue_id and dropped.name = drop_rule.rule;
    if not found then
        perform pgqueue._refuse_unknown_rule(pgqueue._subscription_queue(topic, subscription), rule);
    end if;
end
$$;
