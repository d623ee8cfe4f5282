-- The 64 days of the history. Only the catalogue is written, but those who settle messages of queues that retain history
-- wait until this transaction ends. Who may not create a schema has it created before; not "if not exists", which wants
-- that right even where the schema is there.
do $$
begin
    if to_regnamespace('pgqueue_history') is null then
        create schema pgqueue_history;
    end if;
    for slot in 0 .. 63 loop
        execute format('alter table pgqueue.settled_message_%s set schema pgqueue_history', lpad(slot::text, 2, '0'));
    end loop;
end
$$;
