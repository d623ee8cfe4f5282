-- SEND
select * from pgqueue.publish(:'queue', array[:'staged'], 0);
