-- Forwards messages that wait, whose rows are locked. A message that a queue on the way refuses becomes a dead letter of the
-- queue where it waits, with the reason ForwardingRefused. It halves the messages until those are alone.
--
-- A message whose id an open transaction sends to a queue on the way stays: who takes a turn does not wait for a sender.
-- Locks    the queues on the way against being dropped; waits a hundredth of a second for others.
create or replace function pgqueue._try_to_forward(source pgqueue.queue, places tid[])
returns void
language plpgsql
set lock_timeout = '10ms'
as $$
declare
    half integer := cardinality(places) / 2;
begin
    perform pgqueue._forward(source, places, 'WAITED');
exception when sqlstate 'PQ004' or sqlstate 'PQ005' or sqlstate 'PQ007' or sqlstate 'PQ008' or lock_not_available then
    if half > 0 then
        perform pgqueue._try_to_forward(source, places[:half]);
        perform pgqueue._try_to_forward(source, places[half + 1:]);
    elsif sqlstate <> '55P03' then
        perform pgqueue._move_to_dead_letters(source, places, 'ForwardingRefused', sqlerrm);
    end if;
end
$$;
