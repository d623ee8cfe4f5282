-- The owner of pgqueue, and the rights of each role: run at the end of every migration, once all definitions are there. Verbs run with
-- the rights of their owner and check what their caller may do, so callers have rights on functions, never on tables.
do $$
declare
    schemas constant text[] := '{pgqueue,pgqueue_history}';
    whole   constant text[] := '{_dead_letter,_message,_queue,_scheduled_message,_settled_message}';
    library constant text[] := '{_await_outcomes,_claim_plan,_complete_delivery,_due_in,_is_deferred,_newest_number,_next_xid,_pin_delivery,_priority,_refuse_transaction,_sequences_behind,_settling_xid,_subscribe}';
    wanted  text;
    command text;
begin
    begin
        foreach wanted in array '{pgqueue_owner,pgqueue_admin,pgqueue_sender,pgqueue_receiver,pgqueue_monitor}'::text[] loop
            if to_regrole(wanted) is null then
                begin
                    execute format('create role %I nologin', wanted);
                exception when duplicate_object or unique_violation then
                    null;                                -- roles belong to the server: another database was first
                end;
            end if;
            if wanted <> 'pgqueue_owner' and not pg_has_role('pgqueue_owner', wanted, 'usage with admin option') then
                execute format('grant %I to pgqueue_owner with admin option', wanted);
            end if;
        end loop;
        if not pg_has_role('pgqueue_owner', 'usage') then
            execute format('grant pgqueue_owner to %I', current_user);
        end if;
        for command in
            select format('alter schema %I owner to pgqueue_owner', nspname)
              from pg_namespace
             where nspname = any (schemas) and nspowner <> 'pgqueue_owner'::regrole
             union all
            select format('alter %s %s owner to pgqueue_owner', case when relkind = 'c' then 'type' else 'table' end, pg_class.oid::regclass)
              from pg_class
              join pg_namespace on pg_namespace.oid = relnamespace
             where nspname = any (schemas) and relkind in ('r', 'p', 'v', 'S', 'c')
               and relowner <> 'pgqueue_owner'::regrole
               and not (relkind = 'S' and exists (            -- the sequence of a column goes with its table
                   select from pg_depend where classid = 'pg_class'::regclass and objid = pg_class.oid and deptype in ('a', 'i')))
             union all
            select format('alter routine %s owner to pgqueue_owner', oid::regprocedure)
              from pg_proc
             where pronamespace = 'pgqueue'::regnamespace and proowner <> 'pgqueue_owner'::regrole
        loop
            execute command;
        end loop;
    exception when insufficient_privilege then
        raise warning 'pgqueue belongs to %, because it may not create roles or give what it owns away: %', current_user, sqlerrm
            using hint = 'Let a role with CREATEROLE that owns the database run pgqueue migrate. Until then there are no groups of roles.';
    end;
    grant usage on schema pgqueue to public;
    grant select on pgqueue.alembic_version, pgqueue.installation to public;
    for command in
        select format('grant select on pgqueue.%I to %s', relname,
                      case when relname = any (whole) then 'pgqueue_receiver, pgqueue_admin' else 'public' end)
          from pg_class
         where relnamespace = 'pgqueue'::regnamespace and relkind = 'v' and not has_table_privilege('public', oid, 'select')
           and (relname <> all (whole) or to_regrole('pgqueue_admin') is not null)
    loop
        execute command;
    end loop;
    for command in
        select format(case when is_ours then 'revoke execute on routine %s from public' else 'grant execute on routine %s to public' end, routine)
          from (select oid::regprocedure as routine,
                       proname ~ '^_' and proname <> all (library)
                       and not exists (                     -- views of ours call it; those of others open nothing
                           select
                             from pg_depend
                             join pg_rewrite on pg_rewrite.oid = pg_depend.objid
                             join pg_class on pg_class.oid = ev_class
                            where refclassid = 'pg_proc'::regclass and refobjid = pg_proc.oid
                              and classid = 'pg_rewrite'::regclass and relnamespace = pronamespace) as is_ours,
                       has_function_privilege('public', oid, 'execute') as is_open
                  from pg_proc
                 where pronamespace = 'pgqueue'::regnamespace) as known
         where is_ours = is_open
    loop
        execute command;
    end loop;
end
$$;
