"""From where on something is wrong; docs/doctor.md explains the figures."""

from __future__ import annotations

from datetime import timedelta

#: How long a transaction may be open, prepared or not.
OLD_TRANSACTION = timedelta(minutes=5)

#: How many transactions may have begun since the one that a replication slot still needs.
OLD_SLOT = 1_000_000

#: How long messages may wait, or their locks have expired, without a receiver.
UNATTENDED = timedelta(minutes=5)

#: How long a batch may be open.
OPEN_BATCH = timedelta(days=1)

#: How many messages may become dead letters in an hour; the last hundred of a queue are looked at.
DEAD_LETTERS_AN_HOUR = 10

#: How long a sweep may be overdue: records and days of history are kept for longer than was asked for.
UNSWEPT = timedelta(days=1)

#: A table or index is bloated from this size on, if each row of the table takes so many bytes of it. No row of a table
#: takes more than a page, and no entry of our indexes more than a hundred bytes.
BLOATED_SIZE = 256 * 2**20
BLOATED_ROW = 16 * 2**10
BLOATED_ENTRY = 2**10

#: Autovacuum is behind if so many times the dead rows are there that it begins at, and it did not run for so long.
DEAD_ROWS = 10
UNVACUUMED = timedelta(minutes=10)

#: How many transaction ids, or multixact ids, may be in use. PostgreSQL refuses to write at 2.1 billion.
OLDEST_ID = 1_000_000_000

#: The share of the connections that may be taken.
CONNECTIONS = 0.8

#: How much this machine's clock may differ from the database's.
CLOCKS = timedelta(seconds=5)
