select count(*) from front_scan.receive('bench', 10);
