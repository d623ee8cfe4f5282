"""Disasters: the server is replaced, restored, upgraded or full while senders and workers go on.

A disaster (``restoring`` and the others) has its servers, the fault, and the steps of a person.
It is the one fault of a round of :mod:`benchmarks.chaos`, whose actors, books and rules it uses.
"""
