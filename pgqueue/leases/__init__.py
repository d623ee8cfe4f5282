"""Renewal of locks, and loops in threads or tasks that run until they are stopped."""
