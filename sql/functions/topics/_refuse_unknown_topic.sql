-- Raises  PQ040 unknown topic.
create or replace function pgqueue._refuse_unknown_topic(topic text)
returns void
language plpgsql
as $$
begin
    raise exception using
        errcode = 'PQ040',
        message = format('topic %s does not exist', coalesce(quote_ident(topic), 'null')),
        detail  = pgqueue._tracking_detail(),
        hint    = case when exists (select from pgqueue.queue where name = topic)
                       then 'It is a queue: send to it with pgqueue.send.'
                       else 'Create it with pgqueue.create_topic, or list what exists in pgqueue.topics.' end;
end
$$;
