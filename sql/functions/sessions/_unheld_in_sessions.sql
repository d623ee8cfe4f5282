-- Keeps of messages whose rows are locked those that the holder of their session has not got. A message that was handed
-- out just before its row was locked is among them when this is asked with a new snapshot.
create or replace function pgqueue._unheld_in_sessions(places tid[])
returns tid[]
language plpgsql
as $$
begin
    return array(select ctid from pgqueue.message where ctid = any (places) and not pgqueue._is_held_in_session(message));
end
$$;
