-- Checks the name of a topic, up to 190 characters, or that of a subscription or a rule, up to 50 and without slashes: with both, the
-- name of the subscription's queue is short enough. The first rule of a subscription is called $Default.
-- Raises  PQ007 invalid argument.
create or replace function pgqueue._check_name(kind text, name text)
returns void
language plpgsql
as $$
begin
    if kind = 'topic' and (name is null or length(name) > 190 or name !~ '^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$') then
        perform pgqueue._refuse_argument(
            'the name of a topic',
            'at most 190 letters, digits, dots, underscores, hyphens and slashes, with a letter or digit at each end',
            quote_literal(name));
    elsif kind = 'subscription' and (name is null or length(name) > 50 or name !~ '^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$') then
        perform pgqueue._refuse_argument(
            'the name of a subscription',
            'at most 50 letters, digits, dots, underscores and hyphens, with a letter or digit at each end',
            quote_literal(name));
    elsif kind = 'rule' and name is distinct from '$Default'
          and (name is null or length(name) > 50 or name !~ '^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$') then
        perform pgqueue._refuse_argument(
            'the name of a rule',
            'at most 50 letters, digits, dots, underscores and hyphens, with a letter or digit at each end, or $Default',
            quote_literal(name));
    end if;
end
$$;
