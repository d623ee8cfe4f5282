"""This library beside others that do the same work, each used as its own documentation recommends."""
