"""Outcomes that are kept for the sender: what they cost, and how soon those who wait know."""
