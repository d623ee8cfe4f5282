-- RECEIVE
select * from pgqueue.complete_claim(:'consumer', :'claim', epoch => :'epoch');
