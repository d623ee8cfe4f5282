-- Raises  PQ043 unknown rule.
create or replace function pgqueue._refuse_unknown_rule(subscription text, rule text)
returns void
language plpgsql
as $$
begin
    perform pgqueue._refuse(
        'PQ043', format('%I has no rule %s', subscription, coalesce(quote_ident(rule), 'null')),
        'Create it with pgqueue.create_rule, or list what exists in pgqueue.rules.');
end
$$;
