-- RECEIVE
select * from pgqueue.check_claim(:'consumer', :'claim', epoch => :'epoch');
