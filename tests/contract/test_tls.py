"""With verify-full the server must be the one that is named: tried on a PostgreSQL that is built with TLS."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgqueue import Message, QueueClient
from pgqueue.embedded import ServerError
from pgqueue.errors import ConnectionLostError
from pgqueue.testing.server import ThrowawayServer

NAMED, UNNAMED = "127.0.0.57", "127.0.0.58"  # of the loopback network; the certificate names the first
INSTALLED = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)

CERTIFICATES = f"""
for name in ours theirs; do
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout $name.key -out $name.crt -subj "/CN=$name" || exit 1
done
openssl req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj "/CN=server" || exit 1
echo "subjectAltName=IP:{NAMED}" > names
openssl x509 -req -in server.csr -CA ours.crt -CAkey ours.key -CAcreateserial -days 2 -extfile names -out server.crt
"""


class TlsServer(ThrowawayServer):
    listen_addresses = f"{NAMED},{UNNAMED}"

    def __init__(self, binaries: Path) -> None:
        super().__init__(binaries)
        files = {"ssl_cert_file": "server.crt", "ssl_key_file": "server.key"}
        self.settings |= {"ssl": "on"} | {name: str(self.directory / file) for name, file in files.items()}

    def create(self) -> None:
        super().create()
        made = self.account.run(["sh", "-c", CERTIFICATES], self.directory)
        if made.returncode != 0:
            raise ServerError(made.stderr)
        rules = self.data / "pg_hba.conf"
        rules.write_text("hostnossl all all all reject\n" + rules.read_text())

    def reached(self, host: str, authority: str, mode: str = "verify-full") -> str:
        return f"postgresql://postgres@{host}/postgres?sslmode={mode}&sslrootcert={self.directory / authority}"


@pytest.fixture(scope="module")
def server() -> Iterator[TlsServer]:
    given = os.environ.get("PGQUEUE_TEST_PG_BIN")
    for binaries in [Path(given)] if given else INSTALLED:
        server = TlsServer(binaries)
        try:
            server.create()
            server.start()
            yield server
            return
        except ServerError as error:
            if "SSL is not supported" not in str(error):
                raise
        finally:
            server.remove()
    pytest.skip(
        "the wheel's PostgreSQL is built without TLS, and none is in /usr/lib/postgresql or PGQUEUE_TEST_PG_BIN"
    )


def test_a_client_that_verifies_works_over_tls(server: TlsServer) -> None:
    with QueueClient(server.reached(NAMED, "ours.crt")) as client:
        client.migrate()
        client.create_queue("orders")
        client.queue("orders").send(Message({"id": 7}))
        (received,) = client.queue("orders").receive()
        with received.transaction() as transaction:
            row = transaction.execute("select ssl from pg_stat_ssl where pid = pg_backend_pid()").fetchone()
    assert row == (True,)


@pytest.mark.parametrize(
    ("host", "authority", "mode", "told"),
    [
        (UNNAMED, "ours.crt", "verify-full", "does not match host name"),
        (NAMED, "theirs.crt", "verify-full", "certificate verify failed"),
        (NAMED, "nowhere.crt", "verify-full", "does not exist"),
        (NAMED, "ours.crt", "disable", "no encryption"),
    ],
)
def test_a_server_that_is_not_the_one_named_gets_nothing(
    server: TlsServer, host: str, authority: str, mode: str, told: str
) -> None:
    with (
        QueueClient(server.reached(host, authority, mode)) as client,
        pytest.raises(ConnectionLostError, match=told),
    ):
        client.queue("orders").send(Message({"id": 7}))
