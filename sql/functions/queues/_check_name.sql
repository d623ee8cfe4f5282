-- Checks the name of a queue, up to 260 characters, or of a topic, up to 190, or that of a subscription or a rule, up to 50 and without
-- slashes: so the name of the subscription's queue is short enough. '/Subscriptions/' separates its parts, in any case for the
-- clients of the gateway, so other queues and topics are not named so. The first rule of a subscription is called $Default.
-- Raises  PQ007 invalid argument.
create or replace function pgqueue._check_name(kind text, name text)
returns void
language plpgsql
as $$
declare
    is_path boolean := kind in ('queue', 'topic');
    longest integer := case kind when 'queue' then 260 when 'topic' then 190 else 50 end;
begin
    if kind = 'rule' and name = '$Default' then
        return;
    end if;
    if name is null or length(name) > longest or name !~ '^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$' or (name ~ '/' and not is_path) then
        perform pgqueue._refuse_argument(
            format('the name of a %s', kind),
            format('at most %s letters, digits, dots, underscores%s, with a letter or digit at each end%s', longest,
                   case when is_path then ', hyphens and slashes' else ' and hyphens' end,
                   case when kind = 'rule' then ', or $Default' end),
            quote_literal(name));
    end if;
    if is_path and concat(name, case when kind = 'topic' then '/' end) ~* '/subscriptions/' then      -- its subscriptions get the slash
        perform pgqueue._refuse(
            'PQ007', format('the name %I is reserved for subscriptions, and cannot be that of a %s', name, kind),
            'Create a subscription with pgqueue.create_subscription, or choose a name without ''/Subscriptions''.');
    end if;
end
$$;
