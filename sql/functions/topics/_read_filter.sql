-- Checks the filter and the properties of a rule. Neither filter means a correlation filter without any field. An `sql_filter` is kept beside
-- the JSON path that a client has translated it to.
--
-- A JSON path must be a condition: true, false or unknown, also for a message that has no field of it.
-- Returns  a row with the columns of the filter, and no others.
-- Raises   PQ007 invalid argument.
create or replace function pgqueue._read_filter(
    correlation_filter jsonb, json_path_filter text, sql_filter text, set_properties jsonb)
returns pgqueue.rule
language plpgsql
as $$
#variable_conflict use_variable
declare
    filter pgqueue.rule;
    flaw   record;
begin
    select * into flaw
      from (values ('correlation_filter', correlation_filter),
                   ('the application_properties of correlation_filter', correlation_filter -> 'application_properties'),
                   ('set_properties', set_properties)) as object (argument, value)
     where jsonb_typeof(value) <> 'object';
    if found then
        perform pgqueue._refuse_argument(flaw.argument, 'a JSON object', flaw.value::text);
    elsif pg_column_size(set_properties) > 65536 then
        perform pgqueue._refuse_argument('set_properties', 'at most 65536 bytes as jsonb', pg_column_size(set_properties)::text);
    elsif num_nonnulls(correlation_filter, json_path_filter) = 2 then
        perform pgqueue._refuse_argument('a filter', 'either a correlation_filter or a json_path_filter', 'both');
    elsif sql_filter is not null and json_path_filter is null then
        perform pgqueue._refuse(
            'PQ007', 'an sql_filter needs the json_path_filter that it was translated to',
            'Clients translate it: use SqlFilter in Python, or write a json_path_filter.');
    end if;
    filter.set_properties := set_properties;
    filter.sql_filter     := sql_filter;
    if json_path_filter is null then
        filter.correlation_filter := coalesce(correlation_filter, '{}');
        filter.equals             := pgqueue._filtered_fields(filter.correlation_filter);
        filter.fields             := array(select field collate "C" from jsonb_object_keys(filter.equals) as field order by 1);
        return filter;
    end if;
    begin
        filter.json_path_filter := json_path_filter;
        filter.path             := json_path_filter;
        perform jsonb_path_match('{}', filter.path);
    exception when others then
        perform pgqueue._refuse_argument(
            'json_path_filter',
            'a condition of SQL/JSON paths, such as $.body.amount > 1000 or exists($.body.items[*] ? (@.price > 5))',
            concat(quote_literal(json_path_filter), ': ', sqlerrm));
    end;
    return filter;
end
$$;
