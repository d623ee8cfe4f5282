-- Raises  PQ007 invalid argument: the queue keeps no results.
create or replace function pgqueue._refuse_result(queue text)
returns void
language plpgsql
as $$
begin
    perform pgqueue._refuse(
        'PQ007', format('%s keeps no results', case when pgqueue._is_dead_letter_queue(queue) then queue else format('queue %I', queue) end),
        'Set the result_retention of the queue with pgqueue.alter_queue; dead letters have no results of their own.');
end
$$;
