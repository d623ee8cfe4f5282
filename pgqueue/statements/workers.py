"""Workers: the row of each in ``pgqueue.workers``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta

from pgqueue.statements.statement import Statement, nothing


def heartbeat(
    worker: str,
    *,
    host: str,
    pid: int,
    version: str,
    queues: Sequence[str],
    concurrency: int,
    uptime: timedelta,
    is_alive: bool,
    is_stopping: bool,
    running: int,
    waiting: int,
    overdue: int,
    handled: int,
    failed: int,
    failing: Mapping[str, str],
) -> Statement[None]:
    return Statement(
        """select pgqueue.heartbeat(
                  %(worker)s::uuid, %(host)s::text, %(pid)s::integer, %(version)s::text, %(queues)s::text[],
                  %(concurrency)s::integer, %(uptime)s::interval, %(is_alive)s::boolean, %(is_stopping)s::boolean,
                  %(running)s::integer, %(waiting)s::integer, %(overdue)s::integer, %(handled)s::bigint,
                  %(failed)s::bigint, %(failing)s::jsonb)""",
        {
            "worker": worker,
            "host": host,
            "pid": pid,
            "version": version,
            "queues": list(queues),
            "concurrency": concurrency,
            "uptime": uptime,
            "is_alive": is_alive,
            "is_stopping": is_stopping,
            "running": running,
            "waiting": waiting,
            "overdue": overdue,
            "handled": handled,
            "failed": failed,
            "failing": json.dumps(dict(failing)),
        },
        nothing,
    )


def remove_worker(worker: str) -> Statement[None]:
    return Statement("select pgqueue.remove_worker(%(worker)s::uuid)", {"worker": worker}, nothing)
