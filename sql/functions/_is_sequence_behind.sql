-- Whether a number is in use that is still to be handed out: the sequence went back.
create or replace function pgqueue._is_sequence_behind()
returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select exists (select from pgqueue.progress where horizon > pgqueue._last_number())
        or exists (select from pgqueue.queue where pgqueue._highest_number(queue) > pgqueue._last_number());
$$;
