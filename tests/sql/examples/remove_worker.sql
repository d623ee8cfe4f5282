-- ANYONE: only workers of the caller's role
select * from pgqueue.remove_worker(gen_random_uuid());
