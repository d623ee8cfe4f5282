-- ANYONE: only what was staged for queues that the caller may send to
select * from pgqueue.discard_staged('night');
