"""How fast messages are sent, beside what psycopg does with the same rows."""
