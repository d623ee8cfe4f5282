-- Creates a topic: what is sent to it is stored in each of its subscriptions whose filter matches. See
-- pgqueue.create_subscription.
-- Returns  the topic's id.
-- Raises   PQ003 queue already exists, PQ007 invalid argument, PQ041 topic already exists.
-- Locks    nothing; waits for an open transaction that has created a topic of the same name.
create or replace function pgqueue.create_topic(topic text)
returns integer
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    new_id integer;
begin
    perform pgqueue._check_admin(topic, 'topic');
    perform pgqueue._check_name('topic', topic);
    if exists (select from pgqueue.queue where name = topic) then
        perform pgqueue._refuse(
            'PQ003', format('%I is a queue, and cannot be a topic, too', topic),
            'Choose another name.');
    end if;
    perform pgqueue._repair_ids('pgqueue.topic');
    insert into pgqueue.topic (name, created_at) values (topic, pgqueue.clock())
        on conflict on constraint topic_name_is_taken do nothing
    returning id into new_id;
    if new_id is null then
        perform pgqueue._refuse(
            'PQ041', format('topic %I exists already', topic),
            'List its subscriptions in pgqueue.subscriptions.');
    end if;
    return new_id;
end
$$;
