-- Returns the name of the queue that is this subscription of a topic.
-- Raises   PQ002 unknown queue, PQ040 unknown topic.
-- Locks    the topic's row, as pgqueue._find_topic.
create or replace function pgqueue._find_subscription(topic text, subscription text)
returns text
language plpgsql
as $$
#variable_conflict use_column
declare
    known  pgqueue.topic := pgqueue._find_topic(topic);
    queue  text          := pgqueue._subscription_queue(topic, subscription);
begin
    if not exists (select from pgqueue.subscription where topic_id = known.id and name = _find_subscription.subscription) then
        perform pgqueue._refuse_unknown_queue(queue);
    end if;
    return queue;
end
$$;
