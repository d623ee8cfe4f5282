-- The same message without its lock, as one that was delivered before.
create or replace function pgqueue._unlocked(message pgqueue.message)
returns pgqueue.message
language plpgsql immutable
as $$
begin
    message.lane         := message.lane & ~1;
    message.locked_until := null;
    message.lock_token   := null;
    message.locked_by    := null;
    return message;
end
$$;
