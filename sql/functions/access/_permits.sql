-- Returns whether the caller may do this with a queue: SEND, RECEIVE, MONITOR it, know its SETTINGS, or the OUTCOME of its messages.
create or replace function pgqueue._permits(needed text, queue pgqueue.queue)
returns boolean
language sql stable
return case needed
           when 'SEND'     then pgqueue._may_send((queue).senders)
           when 'RECEIVE'  then pgqueue._may_receive((queue).receivers)
           when 'MONITOR'  then pgqueue._may_receive((queue).receivers) or pgqueue._may_monitor()
           when 'SETTINGS' then pgqueue._may_receive((queue).receivers) or pgqueue._may_monitor() or pgqueue._may_send((queue).senders)
           when 'OUTCOME'  then pgqueue._may_send((queue).senders) or pgqueue._may_receive((queue).receivers)
       end;
