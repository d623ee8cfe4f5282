"""Every way to send and to receive that the library has, as a kind of actor: what one does, over and over."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.chaos.kinds.acting import Kind
from benchmarks.chaos.kinds.alchemy import RECEIVERS as ALCHEMY
from benchmarks.chaos.kinds.asynchronous import RECEIVERS as ASYNCHRONOUS
from benchmarks.chaos.kinds.asynchronous import AsyncSender
from benchmarks.chaos.kinds.receivers import RECEIVERS as BY_HAND
from benchmarks.chaos.kinds.senders import Sender
from benchmarks.chaos.kinds.sessions import RECEIVERS as IN_SESSIONS
from benchmarks.chaos.kinds.spark import RECEIVERS as SPARK
from benchmarks.chaos.kinds.sql import PlainSQL
from benchmarks.chaos.kinds.stubborn import RECEIVERS as STUBBORN
from benchmarks.chaos.kinds.workers import WORKERS

#: The name is that of the kind's own queue, too.
RECEIVERS: Mapping[str, type[Kind]] = {**BY_HAND, **ALCHEMY, "plain-sql": PlainSQL, **WORKERS, **ASYNCHRONOUS}

#: Those of queues that require sessions.
SESSIONS: Mapping[str, type[Kind]] = IN_SESSIONS

SENDERS: Mapping[str, type[Kind]] = {"sender": Sender, "async sender": AsyncSender}

KINDS: Mapping[str, type[Kind]] = {**RECEIVERS, **SESSIONS, **SPARK, **STUBBORN, **SENDERS}
