truncate front_scan.bench;
