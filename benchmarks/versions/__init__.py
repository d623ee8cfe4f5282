"""Versions side by side: three versions of the code send, receive and sweep while the database is migrated from each to
the next, and a week passes.

It is a round of :mod:`benchmarks.chaos` whose processes have each their own copy of the library
(:mod:`benchmarks.chaos.next_version`); ``rules`` judges what may fail, and what must be refused by name.
"""
