-- Returns the name of the queue that is this subscription.
create or replace function pgqueue._subscription_queue(topic text, subscription text)
returns text
language sql immutable
return concat(topic, '/Subscriptions/', subscription);
