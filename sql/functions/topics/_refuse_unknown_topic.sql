-- Raises  PQ040 unknown topic.
create or replace function pgqueue._refuse_unknown_topic(topic text)
returns void
language plpgsql
as $$
begin
    perform pgqueue._refuse(
        'PQ040', format('topic %s does not exist', coalesce(quote_ident(topic), 'null')),
        case when exists (select from pgqueue.queue where name = topic)
             then 'It is a queue: send to it with pgqueue.send.'
             else 'Create it with pgqueue.create_topic, or list what exists in pgqueue.topics.' end);
end
$$;
