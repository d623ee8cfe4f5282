-- Raises  PQ021 session cannot be locked, naming who holds it until when.
create or replace function pgqueue._refuse_held_session(queue pgqueue.queue, session_id text)
returns void
language plpgsql
as $$
#variable_conflict use_column
declare
    held pgqueue.session;
begin
    select * into held
      from pgqueue.session
     where queue_id = queue.id and session_id = _refuse_held_session.session_id and locked_until > pgqueue.clock();
    perform pgqueue._refuse(
        'PQ021', format('session %s of queue %I cannot be locked: %s', quote_literal(_refuse_held_session.session_id), queue.name,
                        case when found then format('%s holds it until %s', held.locked_by, date_trunc('second', held.locked_until))
                             else 'an open transaction of its holder settles its messages, or another consumer is accepting it' end),
        'Try again later, or accept the next session that is available.');
end
$$;
