"""Locks that are kept: their renewal, and the loops that run until they are told to stop, or fail for good."""
