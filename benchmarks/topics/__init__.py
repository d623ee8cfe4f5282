"""Sends to topics beside sends to a queue."""
