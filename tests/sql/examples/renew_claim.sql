-- RECEIVE
select * from pgqueue.renew_claim(:'consumer', claim => :'claim', epoch => :'epoch');
