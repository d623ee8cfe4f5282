"""The rights in the schema: those that a migration gives, and those of roles that were granted queues."""

from __future__ import annotations

from pgqueue.doctor.check import Check
from pgqueue.doctor.checks.schema import INSTALL_AGAIN

MISSING_RIGHTS = Check(
    "missing-rights",
    """
    with ours as (
        select oid from pg_namespace where nspname = any ('{pgqueue,pgqueue_history}')
    )
    select format('The role %%s does not exist.', name) as what,
           'Rights of single queues work, but no role can be granted a right to all of them.' as cost
      from unnest('{pgqueue_owner,pgqueue_admin,pgqueue_sender,pgqueue_receiver,pgqueue_monitor}'::text[]) as name
     where to_regrole(name) is null
     union all
    select format('Not every role may %%s.', barred), 'Applications are refused, whatever they were granted.'
      from (select 'use the schema pgqueue' as barred
              from pg_namespace
             where oid = to_regnamespace('pgqueue') and not has_schema_privilege('public', oid, 'usage')
             union all
            select format('call pgqueue.%%s', proname)
              from pg_proc
             where pronamespace in (select oid from ours) and proname !~ '^_'
               and not has_function_privilege('public', oid, 'execute')
             union all
            select format('read pgqueue.%%s', relname)
              from pg_class
             where relnamespace in (select oid from ours)
               and (relkind = 'v' and relname !~ '^_' or relname in ('alembic_version', 'installation'))
               and not has_table_privilege('public', oid, 'select')) as barred
     union all
    select format('%%s belongs to %%s, not to %%s as its schema does.',
                  pg_class.oid::regclass, pg_get_userbyid(relowner), pg_get_userbyid(nspowner)),
           'Verbs run as the owner of the schema, and may not use it.'
      from pg_class
      join pg_namespace on pg_namespace.oid = relnamespace
     where relnamespace in (select oid from ours) and relkind in ('r', 'p', 'S')
       and not pg_has_role(nspowner, relowner, 'usage')
    """,
    "{row.what}",
    "{row.cost}",
    INSTALL_AGAIN,
)

LOST_ROLES = Check(
    "lost-role",
    """
    select role, may, queue, format('select pgqueue.revoke_%%s(%%L, %%L);', lower(may), queue, role) as mend
      from pgqueue.grants()
     where queue is not null and role <> 'public' and not exists (select from pg_roles where rolname = role)
     order by role, queue
    """,
    "{row.role} may {row.may} for queue {row.queue}, but there is no such role any more.",
    "If it was renamed, its applications are refused; if it was dropped, the next role of that name may.",
    "{row.mend}",
)
