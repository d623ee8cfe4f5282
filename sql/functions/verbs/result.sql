-- Returns the outcome of a message; see pgqueue.outcomes.
-- Returns  one row; none while the message is not settled, and when the queue has no outcome of it.
-- Raises   PQ002 unknown queue; PQ007 invalid argument, when the queue keeps no results.
create or replace function pgqueue.result(queue text, sequence_number bigint)
returns table (state text, result jsonb, error jsonb, settled_at timestamptz)
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    return query
        select state, result, error, settled_at
          from pgqueue.outcomes(queue, array[result.sequence_number])
         where state is not null;
end
$$;
