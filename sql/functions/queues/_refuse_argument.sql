-- Raises  PQ007 invalid argument, naming the argument and its valid values.
create or replace function pgqueue._refuse_argument(argument text, must_be text, was text)
returns void
language plpgsql
as $$
begin
    perform pgqueue._refuse('PQ007', format('%s must be %s, not %s', argument, must_be, coalesce(was, 'null')));
end
$$;
