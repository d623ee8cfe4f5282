"""A demonstration on real input, from end to end, with failures on purpose: see ``running``.

Departures are sent in the same transactions as their business rows. Worker processes post them to a ledger and complete
them in the same transactions, while some of these processes are killed and some transactions abort. The verdict is then
computed from the tables.
"""

from __future__ import annotations


class DemoError(Exception):
    """A demo cannot run, or cannot continue; the text has the reason."""
