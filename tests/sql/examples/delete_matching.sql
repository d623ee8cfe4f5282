-- RECEIVE
select * from pgqueue.delete_matching(:'queue', subject => 'mail');
