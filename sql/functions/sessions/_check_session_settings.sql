-- Checks that a queue that requires sessions, or whose groups take turns, has no setting that its order contradicts.
-- Raises  PQ007 invalid argument.
create or replace function pgqueue._check_session_settings(queue text)
returns void
language plpgsql
as $$
begin
    perform pgqueue._refuse_argument(
                setting, format('left out, because queue %I %s', known.name, case when known.fair then 'is fair' else 'requires sessions' end), was)
       from pgqueue.queue as known
      cross join lateral (
            values ('forward_to', (select quote_literal(target.name) from pgqueue.queue as target where target.id = known.forward_to)),
                   ('requires_session', case when known.requires_session and known.fair then 'true' end),
                   ('max_concurrent', case when known.requires_session then known.max_concurrent::text end),
                   ('priority_ageing', known.priority_ageing::text)) as given (setting, was)
      where known.name = _check_session_settings.queue and (known.requires_session or known.fair) and was is not null;
    perform pgqueue._refuse(
                'PQ007', format('%s must be left out, because queue %I is not fair', setting, known.name),
                'Create a fair queue, and move the messages there with pgqueue.move_messages, or forward to it.')
       from pgqueue.queue as known
      cross join lateral (
            values ('max_concurrent_per_group', known.max_concurrent_per_group::text),
                   ('max_receive_rate_per_group', known.max_receive_rate_per_group::text)) as given (setting, was)
      where known.name = _check_session_settings.queue and not known.fair and was is not null;
end
$$;
