"""Children of the test's process, and what they answer."""

from __future__ import annotations

import os
import pickle
import signal
import traceback
from collections.abc import Callable
from typing import Any

from tests.patience import PATIENCE


class Child:
    """A fork that runs ``work``, and ends without winding anything up, as multiprocessing's children do."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._answer, writing = os.pipe()
        self.process_id = os.fork()
        if self.process_id == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(PATIENCE)  # kills the child if it hangs: nothing else would
            answer: tuple[Any, str | None] = None, "it ended otherwise"
            try:
                answer = work(), None
            except BaseException:  # noqa: BLE001 - raised where the answer is read
                answer = None, traceback.format_exc()
            finally:
                os.write(writing, pickle.dumps(answer))
                os._exit(0)
        os.close(writing)

    def answer(self) -> Any:
        """The result of the work. Waits for the child."""
        with os.fdopen(self._answer, "rb") as pipe:
            told = pipe.read()
        os.waitpid(self.process_id, 0)
        assert told, "the child was killed"
        answer, failure = pickle.loads(told)
        assert failure is None, failure
        return answer


def in_child(work: Callable[[], Any]) -> Any:
    return Child(work).answer()
