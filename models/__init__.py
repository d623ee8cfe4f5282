"""Models of the engine in TLA+, and their twins; see README.md."""
