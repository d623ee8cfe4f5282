-- Raises  PQ050 batch not found.
create or replace function pgqueue._refuse_unknown_batch(batch uuid)
returns void
language plpgsql
as $$
begin
    perform pgqueue._refuse(
        'PQ050', format('batch %s does not exist', coalesce(batch::text, 'null')),
        'Commit its creation before others use it. Batches are deleted a day after they are finished.');
end
$$;
