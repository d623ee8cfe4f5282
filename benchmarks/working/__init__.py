"""How fast a worker works, beside what psycopg does with the same rows."""
