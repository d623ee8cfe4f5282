"""Promotion of a standby, and the old primary's return."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psutil

from benchmarks.disasters.cluster import Cluster
from benchmarks.disasters.round import UNREACHABLE, Disaster, Fate

HAS_CAUGHT_UP = "select coalesce(pg_last_wal_replay_lsn() >= %s::pg_lsn, false)"
HAS_REPLAYED = "select pg_last_wal_receive_lsn() is not distinct from pg_last_wal_replay_lsn()"
IS_RECEIVING = "select exists (select from pg_stat_wal_receiver where status = 'streaming')"
IS_NOT_RECEIVING = "select not exists (select from pg_stat_wal_receiver where status = 'streaming')"
WRITTEN = "select pg_current_wal_flush_lsn()::text"


class Promotion(Disaster):
    """A synchronous standby: each commit waits for it."""

    name = "promotion"
    fault = "the primary killed, its synchronous standby promoted"
    person = "promote the standby; clients find it by a DSN with both hosts"
    found = frozenset({UNREACHABLE})
    synchronous = "*"

    def make(self) -> Sequence[Cluster]:
        return [Cluster(), Cluster()]

    def prepare(self) -> None:
        primary, *standbys = self.servers
        for number, standby in enumerate(standbys):
            self.follow(standby, self.upstream(number))
        if self.synchronous:
            primary.reload(synchronous_standby_names=self.synchronous)

    def upstream(self, number: int) -> Cluster:
        """The server that the standby with this number receives from."""
        return self.servers[0]

    @staticmethod
    def follow(standby: Cluster, upstream: Cluster) -> None:
        standby.receive_from(upstream.dsn())
        standby.start()
        standby.wait_until(IS_RECEIVING)

    def strike(self, fate: Fate) -> None:
        primary, standby = self.servers[:2]
        primary.kill()
        promote(standby, fate)


class Quorum(Promotion):
    """One of two standbys has each commit: the one that has more is promoted."""

    name = "quorum"
    fault = "two standbys, either of which confirms a commit; the primary killed, the one that is ahead promoted"
    person = "promote the standby with the greater `pg_last_wal_receive_lsn()`"
    synchronous = "ANY 1 (*)"

    def make(self) -> Sequence[Cluster]:
        return [Cluster(), Cluster(), Cluster()]

    def strike(self, fate: Fate) -> None:
        primary, *standbys = self.servers
        with frozen_receiver(standbys[0]):
            fate.work(1)
            primary.kill()
        for standby in standbys:
            standby.wait_until(IS_NOT_RECEIVING)
        promote(max(standbys, key=lambda each: each.execute("select pg_last_wal_receive_lsn() - '0/0'::pg_lsn")), fate)


class Cascade(Promotion):
    """A standby of a standby, which follows the promoted one, and is promoted after it."""

    name = "cascade"
    fault = "a standby and a standby of that, promoted one after the other"
    person = "promote the first standby, then the second, which has gone on following it"

    def make(self) -> Sequence[Cluster]:
        return [Cluster(), Cluster(), Cluster()]

    def upstream(self, number: int) -> Cluster:
        return self.servers[number]

    def strike(self, fate: Fate) -> None:
        primary, first, second = self.servers
        primary.kill()
        promote(first, fate)
        fate.work(1)
        switch_over(first, second)


class LaggingPromotion(Promotion):
    """An asynchronous standby that has stopped receiving for a while."""

    name = "lagging promotion"
    fault = "an asynchronous standby that lags by a second promoted, the primary killed"
    person = "promote the standby; what it has not received is gone"
    synchronous = ""

    def strike(self, fate: Fate) -> None:
        primary, standby = self.servers
        standby.wait_until(HAS_CAUGHT_UP, primary.execute(WRITTEN))
        with fate.forgetting():
            self.lose(fate)

    def lose(self, fate: Fate) -> None:
        primary, standby = self.servers
        with frozen_receiver(standby):
            fate.work(1)
            primary.kill()
        standby.wait_until(IS_NOT_RECEIVING)
        promote(standby, fate)


class LaggingQuorum(Quorum):
    """The standby that has each commit is lost with the primary."""

    name = "lagging quorum"
    fault = "the same two standbys, one of which lags by a second; the primary and the one that is ahead killed"
    person = "promote the standby that is left; what it has not received is gone, though commits were confirmed"

    def strike(self, fate: Fate) -> None:
        primary, ahead, behind = self.servers
        behind.wait_until(HAS_CAUGHT_UP, primary.execute(WRITTEN))
        with fate.forgetting():
            with frozen_receiver(behind):
                fate.work(1)
                primary.kill()
                ahead.kill()
            behind.wait_until(IS_NOT_RECEIVING)
            promote(behind, fate)


class Rewind(LaggingPromotion):
    """The old primary follows the new one, and takes over again."""

    name = "rewind"
    fault = "the same; then `pg_rewind` of the old primary, which follows and takes over again"
    person = "promote; `pg_rewind` the old primary, start it as a standby, switch over when it has caught up"

    def strike(self, fate: Fate) -> None:
        super().strike(fate)
        old, new = self.servers
        new.execute("checkpoint")
        old.tool("pg_rewind", "-D", old.data, "--source-server", new.dsn(), "--write-recovery-conf", "--no-sync")
        old.start()
        fate.work(1)
        switch_over(new, old)


def promote(standby: Cluster, fate: Fate) -> None:
    """Ask the doctor, look at what the standby has, and promote it."""
    fate.examine()
    standby.wait_until(HAS_REPLAYED)
    fate.look(standby)
    standby.promote()


def switch_over(primary: Cluster, standby: Cluster) -> None:
    """Stop the primary, which sends all that it has first; promote the standby."""
    standby.wait_until(HAS_CAUGHT_UP, primary.execute(WRITTEN))
    primary.stop()
    standby.wait_until(IS_NOT_RECEIVING)
    standby.wait_until(HAS_REPLAYED)
    standby.promote()


@contextmanager
def frozen_receiver(standby: Cluster) -> Iterator[None]:
    """The standby receives nothing."""
    [receiver] = [
        process
        for process in psutil.Process(standby.process_id()).children()
        if "walreceiver" in " ".join(process.cmdline())
    ]
    receiver.suspend()
    try:
        yield
    finally:
        receiver.resume()


DISASTERS = (Promotion, Quorum, LaggingQuorum, Cascade, LaggingPromotion, Rewind)
