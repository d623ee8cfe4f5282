-- Checks that a queue that requires sessions has no setting that its order contradicts.
-- Raises  PQ007 invalid argument.
create or replace function pgqueue._check_session_settings(queue text)
returns void
language plpgsql
as $$
begin
    perform pgqueue._refuse_argument(setting, format('left out, because queue %I requires sessions', known.name), was)
       from pgqueue.queue as known
      cross join lateral (
            values ('forward_to', (select quote_literal(target.name) from pgqueue.queue as target where target.id = known.forward_to)),
                   ('max_concurrent', known.max_concurrent::text),
                   ('priority_ageing', known.priority_ageing::text)) as given (setting, was)
      where known.name = _check_session_settings.queue and known.requires_session and was is not null;
end
$$;
