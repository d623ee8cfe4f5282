"""One file a system: how its own documentation prepares a database, sends and consumes."""
