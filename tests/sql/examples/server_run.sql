-- ANYONE
select * from pgqueue.server_run();
