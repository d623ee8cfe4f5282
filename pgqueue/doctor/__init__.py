"""Problems of a database with queues: each finding has its begin, its cost and a command that fixes it.

Each module of :mod:`pgqueue.doctor.checks` has queries, and the texts for their rows; nothing is changed.
"""

from __future__ import annotations

from pgqueue.doctor.check import Finding as Finding
from pgqueue.doctor.examining import Examination as Examination
from pgqueue.doctor.examining import Result as Result
from pgqueue.doctor.examining import examine as examine
