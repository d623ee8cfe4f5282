"""Rows a second in and out of a queue through Spark, beside Spark's own JDBC and one process with psycopg."""
