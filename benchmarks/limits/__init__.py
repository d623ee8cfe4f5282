"""The cost of a queue's limits for its receivers."""
