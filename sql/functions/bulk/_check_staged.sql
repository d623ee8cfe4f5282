-- Checks the rows of a staged table, of which these columns are selected, as pgqueue.send_batch checks its arguments.
-- Returns  the number of rows.
-- Raises   PQ005 message too large, PQ007 invalid argument; the error names the position of the invalid row.
create or replace function pgqueue._check_staged(target pgqueue.queue, staged text, selected text)
returns bigint
language plpgsql
as $$
declare
    place tid;
    row   bigint;
    rows  bigint;
begin
    -- This pass finds the first invalid row; pgqueue._check_batch then raises its error. `|| '{}'` builds the
    -- properties again, so that their size is that of uncompressed JSON.
    execute format($query$
        select count(*), min(ctid) filter (
               where (body is null) = (binary_body is null)
                  or priority not between -100 and 100
                  -- generated lines: {all if most and is_staged: or length($name) > $most}
                  or length(message_id) > 128
                  or length(correlation_id) > 128
                  or length(subject) > 260
                  or length(content_type) > 260
                  or length(reply_to) > 260
                  or length(reply_to_session_id) > 128
                  or length("to") > 260
                  or length(partition_key) > 128
                  -- end
                  or jsonb_typeof(application_properties) <> 'object' or pg_column_size(case when jsonb_typeof(application_properties) = 'object' then application_properties || '{}' end) > 65536
                  or not coalesce(time_to_live between interval '1 microsecond' and interval '36500 days', time_to_live is null)
                  or scheduled_enqueue_time > pgqueue.clock() + interval '100 years' or not isfinite(scheduled_enqueue_time)
                  or octet_length(coalesce(binary_body, convert_to(body::text, 'UTF8')))
                     + coalesce(octet_length(application_properties::text), 0) > $1)
          from (select ctid, %s from pgqueue.%I) as given
        $query$, selected, staged)
        into rows, place
       using target.max_message_size;
    if place is not null then
        begin
            execute format($query$
                select pgqueue._check_batch(
                       $1, 1,
                       -- generated: {body to reply_to: array[$name]},
                       array[body], array[binary_body], array[message_id], array[correlation_id], array[subject],
                       array[content_type], array[reply_to],
                       -- end
                       array[case when jsonb_typeof(application_properties) = 'object'
                                  then application_properties || '{}' else application_properties end],
                       array[coalesce(priority, 0)], array[time_to_live], array[scheduled_enqueue_time]
                       -- generated: , {after session_id if is_staged: $arrays => array[$name]}
                       , reply_to_session_ids => array[reply_to_session_id], tos => array["to"],
                       partition_keys => array[partition_key]
                       -- end
                       )
                  from (select %s from pgqueue.%I where ctid = $2) as given
                $query$, selected, staged)
               using target, place;
            perform pgqueue._refuse_argument('the staged table', 'one of messages', 'another');
        exception when sqlstate 'PQ005' or sqlstate 'PQ007' then
            execute format('select count(*) from pgqueue.%I where ctid <= $1', staged) into row using place;
            perform pgqueue._refuse(sqlstate, format('row %s: %s', row, sqlerrm));
        end;
    end if;
    return rows;
end
$$;
