"""Connections that break at every place of the exchange of a COMMIT, however it is sent."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from enum import StrEnum

from benchmarks.disasters.cluster import Cluster
from benchmarks.disasters.proxy import Link, Proxied, Proxy
from benchmarks.disasters.round import Disaster, Fate

#: The end of each answer, but for the byte with the state of the transaction.
READY = b"Z\x00\x00\x00\x05"
#: So many places of each question are cut: all bytes of a short one.
ASKED = 16
#: One in so many commits is torn.
EVERY = 4
#: In seconds: a form that is not cut everywhere by then is not in use.
LONGEST = 600


class Form(StrEnum):
    """The commands that a COMMIT is sent with, in one packet."""

    ALONE = "alone"
    LAST = "after a settlement"
    CHAINED = "with the next BEGIN"


def form(asked: bytes) -> Form | None:
    """The form of a COMMIT in a simple query; None for everything else."""
    commands = [command.strip(b" ;") for command in asked[5:-1].lower().split(b"; ")]
    if asked[:1] != b"Q" or b"commit" not in commands:
        return None
    place = commands.index(b"commit")
    if b"begin" in commands[place:]:
        return Form.CHAINED
    return Form.LAST if place else Form.ALONE


class Torn(Proxied):
    """The proxy cuts some of its connections."""

    proxy: CuttingProxy
    name = "torn commits"
    fault = (
        f"connections cut after each byte of the answer to a COMMIT, and at {ASKED} places of what was sent:"
        f" {', '.join(Form)}"
    )
    person = "nothing"

    def make_proxy(self) -> Proxy:
        return CuttingProxy()

    def make(self) -> Sequence[Cluster]:
        return [Cluster()]

    def strike(self, fate: Fate) -> None:
        self.proxy.is_cutting = True
        latest = time.monotonic() + LONGEST
        while left := list(self.proxy.left()):
            if time.monotonic() > latest:
                raise TimeoutError(f"not cut everywhere in {LONGEST} s: {', '.join(left)}")
            fate.work(0.1)
        self.proxy.is_cutting = False


class CuttingProxy(Proxy):
    """Counts the commits of each form, those that were cut, and the bytes of the longest answer to one that was not."""

    def __init__(self) -> None:
        super().__init__()
        self.is_cutting = False
        self.cuts: Counter[Form] = Counter()
        self._commits: Counter[Form] = Counter()
        self._longest: dict[Form, int] = {}
        self._lock = threading.Lock()

    def cut(self, sent_as: Form, length: int) -> tuple[int, int] | None:
        """How many bytes of a question of this length are passed on, and how many of its answer; None for all."""
        with self._lock:
            self._commits[sent_as] += 1
            if not self.is_cutting or sent_as not in self._longest or self._commits[sent_as] % EVERY:
                return None
            place = self.cuts[sent_as] % self._places(sent_as)
            self.cuts[sent_as] += 1
        return (length * place // ASKED, 0) if place < ASKED else (length, place - ASKED)

    def answered(self, sent_as: Form, length: int) -> None:
        """Note the length of a whole answer."""
        with self._lock:
            self._longest[sent_as] = max(length, self._longest.get(sent_as, 0))

    def left(self) -> Iterator[str]:
        """The forms that were not cut at all of their places yet."""
        for each in Form:
            if each not in self._longest or self.cuts[each] < self._places(each):
                yield f"COMMIT {each}"

    def link(self, client: socket.socket, server: socket.socket) -> Link:
        return _CutLink(self, client, server)

    def _places(self, sent_as: Form) -> int:
        return ASKED + self._longest[sent_as] + 1


class _CutLink(Link):
    """``_left`` is how many more bytes of answers the client gets, if it is cut."""

    def __init__(self, proxy: CuttingProxy, client: socket.socket, server: socket.socket) -> None:
        super().__init__(client, server)
        self._proxy = proxy
        self._left: int | None = None
        self._committing: Form | None = None
        self._answered = 0

    def ask(self) -> None:
        with suppress(OSError):
            while asked := self.client.recv(65536):
                self._committing, self._answered = form(asked), 0
                cut = self._proxy.cut(self._committing, len(asked)) if self._committing else None
                if cut is not None and cut[0] < len(asked):
                    self.server.sendall(asked[: cut[0]])
                    break
                if cut is not None:
                    self._left = cut[1]
                self.server.sendall(asked)
        if self._left is None:
            self.close()

    def answer(self) -> None:
        """The client's end is closed when the server has answered."""
        end = b""
        with suppress(OSError):
            while answered := self.server.recv(65536):
                end = (end + answered)[-len(READY) - 1 :]
                is_over = end.startswith(READY)
                if self._left is not None:
                    self.client.sendall(answered[: self._left])
                    self._left = max(self._left - len(answered), 0)
                    if is_over:
                        break
                    continue
                self._answered += len(answered)
                if is_over and self._committing:
                    self._proxy.answered(self._committing, self._answered)
                self.client.sendall(answered)
        self.close()


DISASTERS: Sequence[type[Disaster]] = (Torn,)
