-- Returns the topic with this name, and locks its row against being dropped.
-- Raises   PQ040 unknown topic.
-- Locks    the topic's row; waits only for a transaction that drops the topic.
create or replace function pgqueue._find_topic(name text)
returns pgqueue.topic
language plpgsql
as $$
#variable_conflict use_column
declare
    known pgqueue.topic;
begin
    select * into known from pgqueue.topic where name = _find_topic.name for key share;
    if not found then
        perform pgqueue._refuse_unknown_topic(_find_topic.name);
    end if;
    return known;
end
$$;
