-- The changes that a transaction makes to batches are counted when it commits: until then it locks no stripe.
do $$
begin
    if not exists (
        select from pg_trigger where tgrelid = 'pgqueue.batch_change'::regclass and tgname = 'count_at_commit'
    ) then
        create constraint trigger count_at_commit
            after insert on pgqueue.batch_change
            deferrable initially deferred
            for each row execute function pgqueue._count_batch_changes();
    end if;
end
$$;
