-- RECEIVE
select * from pgqueue.begin_claim(:'consumer', :'claim', epoch => :'epoch');
