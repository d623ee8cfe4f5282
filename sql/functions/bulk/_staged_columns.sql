-- Returns the select list for staged tables, which all have the columns of the first: every column that a message may
-- have, null where the tables do not have it.
-- Raises   PQ007 invalid argument, when a table does not exist or was staged for another queue.
create or replace function pgqueue._staged_columns(queue pgqueue.queue, staged text[])
returns text
language plpgsql
as $$
declare
    missing text := min(asked)
                      from unnest(staged) as asked
                     where case when exists (select from pgqueue.staged_batch where name = asked and queue_id = queue.id)
                                then to_regclass(format('pgqueue.%I', asked)) is null else true end;
begin
    if array_ndims(staged) is distinct from 1 or cardinality(staged) <> (select count(distinct asked) from unnest(staged) as asked) then
        perform pgqueue._refuse_argument('staged', 'different tables', staged::text);
    end if;
    if missing is not null then
        perform pgqueue._refuse_argument('staged', format('a table that pgqueue.stage has made for queue %I and that was not dropped', queue.name), missing);
    end if;
    return (
        select string_agg(case when attname is null then format('null::%s as %I', known.type, known.name) else quote_ident(known.name) end, ', ')
          from pgqueue._staged_types() as known
          left join pg_attribute
            on attrelid = to_regclass(format('pgqueue.%I', staged[1])) and attname = known.name and not attisdropped);
end
$$;
