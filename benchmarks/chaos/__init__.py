"""A ledger under fire: everything that sends and receives, while everything that can break does.

A run is a number of rounds, each with a database and processes of its own. In a round the processes work (``kinds``)
while faults are carried out (``nemesis``), both as a seed has it (``plan``). Each operation is written down before it
begins and when it has ended (``history``). Then the faults rest, each kind of receiver has to drain its queue alone,
and the books are compared with what is in the database (``rules``).
"""
