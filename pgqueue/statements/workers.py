"""Workers: the row of each in ``pgqueue.workers``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pgqueue.statements.statement import Statement, call, nothing


def heartbeat(worker: str, *, failing: Mapping[str, str], **columns: Any) -> Statement[None]:
    """Write the row; its columns are those that ``pgqueue.heartbeat`` takes."""
    return call(
        "select pgqueue.heartbeat(…)", nothing, {"failing": json.dumps(dict(failing))}, worker=worker, **columns
    )


def remove_worker(worker: str) -> Statement[None]:
    return call("select pgqueue.remove_worker(…)", nothing, worker=worker)
