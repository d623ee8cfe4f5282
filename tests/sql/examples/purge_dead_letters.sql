-- ADMIN
select * from pgqueue.purge_dead_letters(:'queue');
