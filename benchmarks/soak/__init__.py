"""Whether anything grows while a worker works for long."""
