select count(*) from pgqueue.receive('bench', 10);
