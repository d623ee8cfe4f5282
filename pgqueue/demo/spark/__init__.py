"""The pipeline demo: a year of flights from a file through queues into a lake, and a verdict that Spark computes."""
