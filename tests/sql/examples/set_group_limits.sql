-- ADMIN
select pgqueue.set_group_limits(:'queue', 'a', max_concurrent => 10);
