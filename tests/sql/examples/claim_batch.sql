-- RECEIVE
select * from pgqueue.claim_batch(:'consumer', :'claim', 1, epoch => :'epoch');
