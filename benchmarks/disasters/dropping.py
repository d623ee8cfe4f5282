"""A network that carries nothing, and closes no connection, as behind a firewall that drops packets."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from os import getpid

from benchmarks.disasters.cluster import Cluster
from benchmarks.disasters.proxy import Proxied
from benchmarks.disasters.round import NAME, UNREACHABLE, Disaster, Fate

#: For how long nothing comes through, in seconds: longer than locks last, and longer, or not, than both ends wait.
LONG, SHORT = 8, 4
#: So long a new connection waits for an answer, as that of the doctor in the middle does.
CONNECT = 2
#: After so many seconds, of keepalives or of data that is not confirmed, both ends give a connection up.
PATIENCE = 5
CLIENT = (
    f"connect_timeout={CONNECT}&tcp_user_timeout={PATIENCE}000"
    "&keepalives_idle=2&keepalives_interval=1&keepalives_count=3"
)
SERVER = {
    "tcp_keepalives_idle": "2",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": f"{PATIENCE}s",
}
ARE_GONE = """
select not exists (
    select from pg_stat_activity where datname = %s and backend_type = 'client backend' and backend_start < %s)"""


class BlackHole(Proxied):
    """A firewall forgets all connections; new ones come through when it is over."""

    name = "black hole"
    fault = f"all packets dropped in both directions for {LONG} s, and for good those of present connections"
    person = (
        f"nothing, with [timeouts of {PATIENCE} s](timeouts.md#networks-that-drop-packets) in the DSN and the server"
    )
    found = frozenset({UNREACHABLE})
    silence = LONG
    for_good = True

    def make(self) -> Sequence[Cluster]:
        server = Cluster(**SERVER)
        # Of its own, as the port is always the same.
        server.listen_addresses = f"127.{1 + getpid() // 65536 % 250}.{getpid() // 256 % 256}.{getpid() % 256}"
        return [server]

    def dsn(self) -> str:
        return f"{super().dsn()}&{CLIENT}"

    def strike(self, fate: Fate) -> None:
        server = self.servers[0]
        began: datetime = server.execute("select clock_timestamp()")
        with self.proxy.hole(for_good=self.for_good):
            fate.work(self.silence - CONNECT)
            fate.examine()
        if self.for_good:
            server.wait_until(ARE_GONE, NAME, began)


class Stall(BlackHole):
    """The network stalls for less long than both ends wait, and goes on with what was under way."""

    name = "stalled network"
    fault = f"all packets dropped in both directions for {SHORT} s, twice as long as locks last; then all go on"
    person = "nothing"
    silence = SHORT
    for_good = False


DISASTERS: Sequence[type[Disaster]] = (BlackHole, Stall)
