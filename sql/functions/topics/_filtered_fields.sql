-- Checks a correlation filter that is a JSON object, and returns the values that it asks for by the names of the fields; a
-- property's name begins with `application_properties.`.
-- Raises  PQ007 invalid argument.
create or replace function pgqueue._filtered_fields(correlation_filter jsonb)
returns jsonb
language plpgsql
as $$
#variable_conflict use_variable
declare
    texts  text[] := array[
        -- generated: {all if is_filterable: '$key'}
        'message_id', 'correlation_id', 'subject', 'content_type', 'reply_to', 'session_id', 'reply_to_session_id',
        'to'
        -- end
    ];
    fields jsonb  := correlation_filter - 'application_properties';
    flaw   record;
begin
    select * into flaw
      from jsonb_each(fields) as filtered (name, value)
     where name <> all (texts)
        or jsonb_typeof(value) <> 'string';
    if found then
        perform pgqueue._refuse_argument(
            'correlation_filter',
            'an object of application_properties and of texts: ' || array_to_string(texts, ', '),
            format('one with the %s %s', flaw.name, flaw.value));
    end if;
    fields := fields || coalesce((
        select jsonb_object_agg('application_properties.' || name, value)
          from jsonb_each(correlation_filter -> 'application_properties') as property (name, value)), '{}');
    if jsonb_path_exists(fields, '$.* ? (@ == null)') then
        perform pgqueue._refuse_argument('correlation_filter', 'one without nulls', correlation_filter::text);
    elsif (select sum(octet_length(name) + 8) from jsonb_object_keys(fields) as name) > 2000 then
        perform pgqueue._refuse_argument(
            'correlation_filter', 'one that names fields in at most 2000 bytes, and 8 for each', 'longer');
    end if;
    return fields;
end
$$;
