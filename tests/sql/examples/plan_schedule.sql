-- RECEIVE
select * from pgqueue.plan_schedule(:'planned', '{}');
