-- Returns the last number that the sequence has handed out.
create or replace function pgqueue._last_number_drawn()
returns bigint
language plpgsql stable                      -- see pgqueue._due_from
as $$
begin
    return (select case when is_called then last_value else last_value - 1 end from pgqueue.sequence_number);
end
$$;
