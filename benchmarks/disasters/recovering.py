"""Base backups: restored with the archive of the WAL, to its end or to a point in time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.disasters.cluster import Cluster
from benchmarks.disasters.round import UNREACHABLE, Disaster, Fate


class BaseBackup(Disaster):
    """A base backup that is taken under load, and all of the archive."""

    name = "base backup"
    fault = "`pg_basebackup` under load, the server gone, recovery to the end of the archive"
    person = "restore the base backup, set `restore_command`, create `recovery.signal`, start"
    found = frozenset({UNREACHABLE})

    def make(self) -> Sequence[Cluster]:
        first = Cluster(archive_mode="on")
        first.settings["archive_command"] = f"cp %p {_archive(first)}/%f"
        return [first, Cluster()]

    def start(self) -> None:
        super().start()
        self.servers[0].account.make_directory(_archive(self.servers[0]))

    def strike(self, fate: Fate) -> None:
        self.back_up()
        fate.work(1)
        self.servers[0].stop()  # archives what is not yet archived
        self.recover(fate)

    def back_up(self) -> None:
        first, new = self.servers
        new.account.make_directory(new.directory)
        new.tool("pg_basebackup", "-d", first.dsn(), "-D", new.data, "-c", "fast")

    def recover(self, fate: Fate, **target: str) -> None:
        """Look at the new server when it has recovered, before it accepts writes."""
        first, new = self.servers
        fate.examine()
        restore = f"cp {_archive(first)}/%f %p"
        new.configure(archive_mode="off", restore_command=restore, default_transaction_read_only="on", **target)
        new.account.run(["touch", str(new.data / "recovery.signal")], new.directory)
        new.start()
        new.wait_until("select not pg_is_in_recovery()")
        fate.look(new)
        new.reload(default_transaction_read_only="off")


class PointInTime(BaseBackup):
    """Recovery to a moment before the end."""

    name = "point in time"
    fault = "the same, with recovery to a moment two seconds before the server was lost"
    person = "the same, with `recovery_target_time`; what was committed after it is gone"

    def strike(self, fate: Fate) -> None:
        first = self.servers[0]
        self.back_up()
        fate.work(1)
        with fate.forgetting():
            moment = first.execute("select clock_timestamp()::text")
            fate.work(2)
            first.stop()
            self.recover(fate, recovery_target_time=moment, recovery_target_action="promote")


def _archive(server: Cluster) -> Path:
    return server.directory / "archive"


DISASTERS = (BaseBackup, PointInTime)
