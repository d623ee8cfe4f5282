-- RECEIVE
select * from pgqueue.release_claim(:'consumer', :'claim', epoch => :'epoch');
