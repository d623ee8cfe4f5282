"""How long the views and counts take that people look at, in a database with many queues and messages."""
