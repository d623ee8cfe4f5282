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
VERBS = "sql/functions/verbs"

#: They come to light when a handler fails, or when several messages of a session are received at once.
IN_CALM = [
    Defect(
        "sql/functions/settling/_redeliver.sql",
        "case when lane = 2000 then message.position else placed.position end",
        "placed.position",
    ),
    Defect(
        f"{VERBS}/receive_from_session_batch.sql",
        "order by nth, (message).position",
        "order by (message).position desc",
    ),
    Defect(
        WORKER,
        "            self._unstarted.extend(session.ahead)\n            session.ahead.clear()\n",
        "            pass\n",
    ),
    Defect(WORKER, "self.started is not None or self.is_over or not self.ahead", "self.is_over or not self.ahead"),
    Defect(WORKER, "session.started is message and (may_follow", "session.started is message and (True or may_follow"),
]

#: They come to light when a worker goes on with what it has lost.
IN_STORM = [
    Defect("sql/functions/sessions/_free_sessions.sql", "or locked_until <= pgqueue.clock()", "or true"),
    Defect("sql/functions/sessions/_prove_sessions.sql", "session.lock_token = message.lock_token", "true"),
    Defect("sql/functions/sessions/_prove_sessions.sql", "               for key share of session", ""),
    Defect("sql/functions/settling/_lock_proven.sql", "if queue.requires_session then", "if false then"),
    Defect(
        f"{VERBS}/complete_batch.sql",
        "session_id = message.session_id and lock_token = token",
        "session_id = message.session_id",
    ),
]

pytestmark = pytest.mark.chaos


#: The rounds of a sound run, and those in which a defect must have come to light.
FEW, MANY = 3, 20


def calm(database: Database, directory: Path, rounds: int, defect: Defect | None = None) -> None:
    """Handlers fail, and nothing else does: each session is released by its worker, before its lock expires."""
    with staged(database, directory, timedelta(minutes=1), [], defect) as scene:
        for _ in range(3):
            scene.hire("handlers:quick")
        with scene.sending():
            for _ in range(3 * rounds):
                scene.wait_for_work()
        scene.check_all_is_done()


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
            ]:
                scene.wait_for_work()
                deed(scene)
        scene.check_all_is_done()


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
    with pytest.raises(AssertionError, match="broken: "):
        calm(database, tmp_path, MANY, defect)


@pytest.mark.parametrize("defect", IN_STORM, ids=str)
def test_a_defect_comes_to_light_in_storm(database: Database, tmp_path: Path, defect: Defect) -> None:
    with pytest.raises(AssertionError, match="broken: "):
        storm(database, tmp_path, MANY, defect)
