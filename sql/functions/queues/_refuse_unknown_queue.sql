-- Raises  PQ002 unknown queue; PQ007 invalid argument, when the name denotes dead letters and the verb does not support
--         them.
create or replace function pgqueue._refuse_unknown_queue(queue text)
returns void
language plpgsql
as $$
begin
    if pgqueue._is_dead_letter_queue(queue) then
        perform pgqueue._refuse(
            'PQ007', format('dead letters are received, completed, abandoned, resubmitted or purged, nothing else: not %s', queue),
            'Name the queue they belong to, without ''/$deadletterqueue''.');
    end if;
    perform pgqueue._refuse(
        'PQ002', format('queue %s does not exist', coalesce(quote_ident(queue), 'null')),
        case when exists (select from pgqueue.topic where name = queue)
             then 'It is a topic: send to it with pgqueue.publish_to_topic, and receive from its subscriptions.'
             when queue like '%/Subscriptions/%'
             then 'Create it with pgqueue.create_subscription, or list what exists in pgqueue.subscriptions.'
             else 'Create it with pgqueue.create_queue, or list what exists in pgqueue.queues.' end);
end
$$;
