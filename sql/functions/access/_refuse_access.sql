-- Refuses a call for which the caller lacks a right: SEND, RECEIVE, MONITOR, SETTINGS, OUTCOME or ADMIN. Where no queue is named, the
-- right to receive is that to every queue.
-- Raises  42501 access denied, naming role, verb and queue, or topic.
create or replace function pgqueue._refuse_access(lacking text, queue text default null, kind text default 'queue')
returns void
language plpgsql
as $$
declare
    context text;
    verb    text;
begin
    get diagnostics context = pg_context;
    verb := (select match[1] from regexp_matches(context, 'pgqueue'::regnamespace || '\.([a-z]\w*)\(', 'g') with ordinality as found (match, nth)
              order by nth desc limit 1);                                   -- the outermost: what the caller has called
    perform pgqueue._refuse(
        '42501', format('role %I may not %s', pgqueue._caller(), coalesce(
            'call pgqueue.' || verb || coalesce(' for ' || kind || ' ' || quote_ident(queue), ''), 'use queue ' || quote_ident(queue),
            case lacking when 'MONITOR' then 'read the counts' else 'read the messages' end || ' of all queues')),
        case when lacking = 'RECEIVE' and queue is null
             then format('An administrator allows it with grant pgqueue_receiver to %I.', pgqueue._caller())
             when lacking = 'SETTINGS' and queue is not null     -- a worker asks for them first
             then format('An administrator allows it with pgqueue.grant_%1$s(%2$L, %3$L), or to look only with pgqueue.grant_%4$s(%3$L).',
                         'receive', queue, pgqueue._caller(), 'monitor')
             else format('An administrator allows it with pgqueue.grant_%s(%s).', replace(replace(lower(lacking), 'settings', 'monitor'), 'outcome', 'send'),
                         case when lacking in ('SEND', 'RECEIVE', 'OUTCOME') then quote_literal(queue) || ', ' else '' end
                         || quote_literal(pgqueue._caller())) end);
end
$$;
