-- Raises a notice for each message that was a duplicate, by its message id or its unique key, for at most ten of them.
create or replace function pgqueue._notice_duplicates(
    message_ids text[], numbers bigint[], answers bigint[], unique_keys text[] default null, replaces boolean[] default null)
returns void
language plpgsql
as $$
#variable_conflict use_column
declare
    duplicate record;
begin
    for duplicate in
        select message_id, unique_key, answer
          from unnest(message_ids, numbers, answers, unique_keys, replaces) with ordinality
               as sent (message_id, number, answer, unique_key, replaces, nth)
         where answer <> number and replaces is not true
         order by nth
         limit 10
    loop
        if duplicate.unique_key is null then
            raise notice 'message id % was sent before, as message %: nothing was stored',
                quote_literal(duplicate.message_id), duplicate.answer;
        else
            raise notice 'message % has the unique key %, or was sent with this message id: nothing was stored',
                duplicate.answer, quote_literal(duplicate.unique_key);
        end if;
    end loop;
end
$$;
