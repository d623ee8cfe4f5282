-- Creates a key with which clients of the gateway connect as a database role. The key itself is not stored: gateways derive it from
-- the salt and a secret of their own. The caller must be a member of the role.
-- Returns  the salt.
-- Raises   PQ007 invalid argument, 42501 access denied.
create or replace function pgqueue.create_gateway_key(name text, role text)
returns bytea
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    new_salt constant bytea := sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
begin
    perform pgqueue._check_grant(role);
    perform pgqueue._refuse_argument(given.name, must_be, was)
       from (values
            ('the name of a key', 'at most 128 letters, digits, dots, underscores and hyphens, with a letter or digit at each end',
             quote_nullable(name),
             coalesce(length(name) <= 128 and name ~ '^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$', false)),
            ('role', 'a role that you are a member of', quote_literal(role),
             pg_has_role(pgqueue._caller(), role, case when current_setting('server_version_num')::integer < 160000 then 'member' else 'set' end))) as given (name, must_be, was, is_sane)
      where not is_sane;
    insert into pgqueue.gateway_key (name, role, salt, created_at) values (name, role, new_salt, pgqueue.clock())
        on conflict on constraint gateway_key_pkey do nothing;
    if not found then
        perform pgqueue._refuse_argument('the name of a key', 'one that no other key has', quote_literal(name));
    end if;
    return new_salt;
end
$$;
