-- Raises a notice for each message that was a duplicate, for at most ten of them.
create or replace function pgqueue._notice_duplicates(message_ids text[], numbers bigint[], answers bigint[])
returns void
language plpgsql
as $$
declare
    duplicate record;
begin
    for duplicate in
        select message_id, answer
          from unnest(message_ids, numbers, answers) with ordinality as sent (message_id, number, answer, nth)
         where answer <> number
         order by nth
         limit 10
    loop
        raise notice 'message id % was sent before, as message %: nothing was stored',
            quote_literal(duplicate.message_id), duplicate.answer;
    end loop;
end
$$;
