-- Returns a subscription of a topic, and locks its row against being dropped.
-- Raises   PQ002 unknown queue, PQ040 unknown topic.
-- Locks    the subscription's row and the topic's; waits only for a transaction that drops one of them.
create or replace function pgqueue._lock_subscription(topic text, subscription text)
returns pgqueue.subscription
language plpgsql
as $$
#variable_conflict use_column
declare
    parent pgqueue.topic := pgqueue._find_topic(topic);
    known  pgqueue.subscription;
begin
    select * into known
      from pgqueue.subscription
     where topic_id = parent.id and name = _lock_subscription.subscription
       for key share;
    if not found then
        perform pgqueue._refuse_unknown_queue(pgqueue._subscription_queue(topic, _lock_subscription.subscription));
    end if;
    return known;
end
$$;
