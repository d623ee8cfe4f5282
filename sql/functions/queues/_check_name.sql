-- Checks the name of a new queue.
-- Raises  PQ007 invalid argument.
create or replace function pgqueue._check_name(queue text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if queue is null or length(queue) > 260 or queue !~ '^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$' then
        perform pgqueue._refuse_argument(
            'the name of a queue',
            'at most 260 letters, digits, dots, underscores, hyphens and slashes, with a letter or digit at each end',
            quote_literal(queue));
    end if;
end
$$;
