-- RECEIVE of all queues
call pgqueue.sweep_all();
