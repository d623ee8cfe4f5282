"""How the cost of a message grows: with what waits, with how many consume, with how many queues there are."""
