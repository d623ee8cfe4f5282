"""Workers on sessions that are killed and frozen again and again: no session is ever out of order, nor in two hands.

Each rule that sessions rest on is taken out once, and must be missed.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from pgqueue.testing import Database
from tests.chaos.in_sessions import Defect, Scene, staged

WORKER = "pgqueue/worker/sessions.py"
FUNCTIONS = "sql/functions"

OUT_OF_ORDER = "before its predecessor"
STOLEN = "accepted while another holds it"
UNPROVEN = "completed without the lock of its session"
IN_TRANSACTION = "accepted while a transaction settles a message of it"
FORGOTTEN = "released, and not offered again"

#: They come to light when a handler fails, or when several messages of a session are received at once.
IN_CALM = [
    Defect(
        OUT_OF_ORDER,
        f"{FUNCTIONS}/settling/_redeliver.sql",
        "case when lane = 2000 then message.position else placed.position end",
        "placed.position",
    ),
    Defect(
        OUT_OF_ORDER,
        f"{FUNCTIONS}/verbs/receive_from_session_batch.sql",
        "order by nth, (message).position",
        "order by (message).position desc",
    ),
    Defect(
        FORGOTTEN,
        f"{FUNCTIONS}/sessions/_hand_back.sql",
        "       set available_at = pgqueue.clock()",
        "       set available_at = available_at",
    ),
    Defect(
        OUT_OF_ORDER,
        WORKER,
        "            self._unstarted.extend(session.ahead)\n            session.ahead.clear()\n",
        "            pass\n",
    ),
    Defect(
        OUT_OF_ORDER,
        WORKER,
        "self.started is not None or self.is_over or not self.ahead",
        "self.is_over or not self.ahead",
    ),
    Defect(
        OUT_OF_ORDER,
        WORKER,
        "session.started is message and (may_follow",
        "session.started is message and (True or may_follow",
    ),
]

#: They come to light when a worker goes on with what it has lost.
IN_STORM = [
    Defect(STOLEN, f"{FUNCTIONS}/sessions/_free_sessions.sql", "or locked_until <= pgqueue.clock()", "or true"),
    Defect(UNPROVEN, f"{FUNCTIONS}/sessions/_prove_sessions.sql", "session.lock_token = message.lock_token", "true"),
    Defect(IN_TRANSACTION, f"{FUNCTIONS}/sessions/_prove_sessions.sql", "               for key share of session", ""),
    Defect(
        f"{UNPROVEN}|{IN_TRANSACTION}",
        f"{FUNCTIONS}/settling/_lock_proven.sql",
        "if queue.requires_session then",
        "if false then",
    ),
    Defect(
        UNPROVEN,
        f"{FUNCTIONS}/verbs/complete_batch.sql",
        "session_id = message.session_id and lock_token = token",
        "session_id = message.session_id",
    ),
]

#: The rounds of a sound run, and those in which a defect must have come to light.
FEW, MANY = 3, 20

pytestmark = pytest.mark.chaos


def calm(database: Database, directory: Path, rounds: int, defect: Defect | None = None) -> None:
    """Handlers fail, and nothing else does: each session is released by its worker, before its lock expires."""
    with staged(database, directory, timedelta(minutes=1), [], defect) as scene:
        for _ in range(3):
            scene.hire("handlers:quick")
        with scene.sending():
            for _ in range(3 * rounds):
                scene.wait_for_work()
        scene.check_all_is_done(is_calm=True)


def storm(database: Database, directory: Path, rounds: int, defect: Defect | None = None) -> None:
    """Workers are killed, and frozen for longer than their locks last."""
    with staged(database, directory, timedelta(seconds=1), ["not released"], defect) as scene:
        for _ in range(3):
            scene.hire("handlers:quick")
            scene.hire("handlers:slow", "--max-messages-per-session", "1")
        with scene.sending():
            for deed in rounds * [
                Scene.freeze_worker_with_messages_ahead,
                Scene.freeze_worker_in_transaction,
                Scene.kill_worker,
                Scene.terminate_connections,
            ]:
                scene.wait_for_work()
                deed(scene)
        scene.check_all_is_done(is_calm=False)


def test_handlers_that_fail_break_no_order_and_no_session_waits_for_the_end_of_a_lock(
    database: Database, tmp_path: Path
) -> None:
    calm(database, tmp_path, FEW)


def test_killed_and_frozen_workers_break_no_order_and_lose_and_double_nothing(
    database: Database, tmp_path: Path
) -> None:
    storm(database, tmp_path, FEW)


@pytest.mark.parametrize("defect", IN_CALM, ids=str)
def test_a_defect_comes_to_light_in_calm(database: Database, tmp_path: Path, defect: Defect) -> None:
    with pytest.raises(AssertionError, match=f"broken: .*({defect.rule})"):
        calm(database, tmp_path, MANY, defect)


@pytest.mark.parametrize("defect", IN_STORM, ids=str)
def test_a_defect_comes_to_light_in_storm(database: Database, tmp_path: Path, defect: Defect) -> None:
    with pytest.raises(AssertionError, match=f"broken: .*({defect.rule})"):
        storm(database, tmp_path, MANY, defect)
