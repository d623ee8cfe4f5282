-- The roles that may send to a queue, and those that may receive from it, by name: a dump that is restored elsewhere keeps
-- them, whatever the roles' ids are there. See ADR 43.
alter table pgqueue.queue
    add column senders   text[] not null default '{}',
    add column receivers text[] not null default '{}';

-- What roles could do by their rights on the tables they may do with the queues that are there. Rights by which one could
-- run code of one's own as the owner of a table are taken back.
update pgqueue.queue
   set senders = array(
           select distinct rolname::text
             from pg_class
            cross join lateral aclexplode(relacl) as acl
             join pg_roles on pg_roles.oid = acl.grantee
            where pg_class.oid = 'pgqueue.message'::regclass and acl.privilege_type = 'INSERT' and acl.grantee <> relowner
            order by 1),
       receivers = array(
           select distinct rolname::text
             from pg_class
            cross join lateral aclexplode(relacl) as acl
             join pg_roles on pg_roles.oid = acl.grantee
            where pg_class.oid = 'pgqueue.message'::regclass and acl.privilege_type = 'DELETE' and acl.grantee <> relowner
            order by 1);

do $$
declare
    command text;
begin
    for command in
        select distinct format('revoke trigger, references, truncate on all tables in schema pgqueue from %s',
                               case when acl.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(acl.grantee)) end)
          from pg_class
         cross join lateral aclexplode(relacl) as acl
         where relnamespace = 'pgqueue'::regnamespace and relkind in ('r', 'p') and acl.grantee <> relowner
           and acl.privilege_type in ('TRIGGER', 'REFERENCES', 'TRUNCATE')
    loop
        execute command;
    end loop;
end
$$;

-- No statistics of what senders have written: the estimates of EXPLAIN would tell them to whoever may select from a view.
do $$
declare
    command text;
begin
    for command in
        select format('alter table %s alter column %I set statistics 0', attrelid::regclass, attname)
          from pg_attribute
         where attrelid = any ('{pgqueue.message,pgqueue.dead_letter,pgqueue.scheduled_message,pgqueue.settled_message}'::regclass[])
           and attname in ('body', 'binary_body', 'application_properties', 'message_id', 'correlation_id', 'subject', 'reply_to')
    loop
        execute command;
    end loop;
end
$$;
