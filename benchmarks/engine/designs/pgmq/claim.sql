select count(*) from pgmq.read('bench', 3600, 10);
