truncate pgmq.q_bench;
