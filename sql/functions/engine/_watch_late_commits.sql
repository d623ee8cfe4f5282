-- Adds messages to the watch list that were committed behind the cursor, by transactions that were open when it moved
-- past and have ended since. Covers a million numbers per call.
-- Returns  the progress, without the transactions that are finished.
create or replace function pgqueue._watch_late_commits(progress pgqueue.progress, open xid8[])
returns pgqueue.progress
language plpgsql
as $$
declare
    lowest bigint := (select min(above)
                        from unnest(progress.awaited, progress.awaited_above) as late (xid, above)
                       where xid <> all (open));
    done   bigint;
begin
    if lowest is not null then
        done := pgqueue._watch_passed(progress, lowest, least(progress.cursor, lowest + 1000000));
        select coalesce(array_agg(xid), '{}'),
               coalesce(array_agg(case when xid = any (open) then above else greatest(above, done) end), '{}')
          into progress.awaited, progress.awaited_above
          from unnest(progress.awaited, progress.awaited_above) as late (xid, above)
         where xid = any (open) or done < progress.cursor;
    end if;
    return progress;
end
$$;
