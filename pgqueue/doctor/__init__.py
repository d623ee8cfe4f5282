"""What is wrong with a database that queues are in: each finding says since when, what it costs, and what mends it.

Each module of :mod:`pgqueue.doctor.checks` has queries, and functions that judge their rows; nothing is changed.
"""

from __future__ import annotations

from pgqueue.doctor.check import Finding as Finding
from pgqueue.doctor.examining import Examination as Examination
from pgqueue.doctor.examining import Result as Result
from pgqueue.doctor.examining import examine as examine
