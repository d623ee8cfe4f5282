-- ADMIN
select * from pgqueue.create_schedule('another', :'queue', every => '1 day', body => '1');
