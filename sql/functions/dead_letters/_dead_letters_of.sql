-- Returns the name of the queue in '<queue>/$deadletterqueue'.
-- Raises   PQ002 unknown queue, for any other name.
create or replace function pgqueue._dead_letters_of(path text)
returns text
language plpgsql
as $$
begin
    if pgqueue._is_dead_letter_queue(path) then
        return left(path, -17);
    end if;
    perform pgqueue._refuse_unknown_queue(path);
end
$$;
