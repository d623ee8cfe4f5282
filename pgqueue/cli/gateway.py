"""``pgqueue gateway``: serve clients of Azure Service Bus, and make the keys with which they connect."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgqueue.cli import output
from pgqueue.cli.choice import Choice, Dsn, Embedded, Schema
from pgqueue.cli.connection import Database, find, on_database
from pgqueue.cli.documents import keys_table
from pgqueue.cli.failures import Failed, WrongUse
from pgqueue.cli.group import Group, top
from pgqueue.cli.logs import LogFormat, LogLevel, log_to_stderr
from pgqueue.cli.options import flag
from pgqueue.cli.output import Result
from pgqueue.cli.quantities import parse_host
from pgqueue.cli.queues import Yes, ask

if TYPE_CHECKING:
    from pgqueue.gateway.gateway import Gateway
    from pgqueue.gateway.keys import KeyRing

REMEDY = "the gateway needs the extra gateway: pip install 'pgqueue-tx[gateway]'"

#: The variable with the secret that keys are derived from, besides their salts.
SECRET = "PGQUEUE_GATEWAY_SECRET"  # noqa: S105 - the name of it

LOOPBACK = ("127.0.0.1", "localhost", "::1")

app = Group(invoke_without_command=True)
keys = Group(no_args_is_help=True, help="Make, list and delete the keys of clients.")
app.add_typer(keys, name="keys")
top.add_typer(app, name="gateway")


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise typer.BadParameter(f"{text!r}: write an address and a port, as 127.0.0.1:5672")
    return parse_host(host.strip("[]")), int(port)


def _listening(meaning: str, *names: str) -> Any:
    return typer.Option(*names, help=meaning, metavar="HOST:PORT", parser=_address)


@app.callback()
def serve(
    context: typer.Context,
    listen: Annotated[Any, _listening("Where to serve AMQP.", "--listen")] = "127.0.0.1:5672",
    websocket: Annotated[Any, _listening("Where to serve AMQP over WebSockets.", "--websocket")] = None,
    administration: Annotated[
        Any, _listening("Where to serve the administration over HTTP, and /metrics.", "--administration")
    ] = None,
    certificate: Annotated[Path | None, typer.Option(help="A certificate: clients connect by TLS.")] = None,
    private_key: Annotated[Path | None, typer.Option(help="Its private key, unless that is in the same file.")] = None,
    plain_text: Annotated[bool, flag("plain-text", "Serve others than this machine without TLS.")] = False,
    json_bodies: Annotated[bool, flag("json-bodies", "Store bodies of a JSON content type as JSON.")] = False,
    max_links: Annotated[int, typer.Option(min=1, help="How many links all clients may have.")] = 4096,
    log_level: Annotated[LogLevel, typer.Option(help="The least level that is logged.")] = LogLevel.INFO,
    log_format: Annotated[LogFormat, typer.Option(help="Lines for people, or JSON for programs.")] = LogFormat.TEXT,
    dsn: Dsn = None,
    embedded: Embedded = False,
    schema: Schema = None,
) -> None:
    """Serve clients of Azure Service Bus until SIGTERM.

    pgqueue gateway keys create shop

    pgqueue gateway --listen 127.0.0.1:5672 --administration 127.0.0.1:5300

    A client connects with a key, and has the rights of its database role. The gateway itself needs a role that may
    take on those of the keys. Keys are derived from the secret in PGQUEUE_GATEWAY_SECRET.
    """
    choice = Choice.of(context, dsn, embedded, schema)
    if context.invoked_subcommand is not None:
        context.find_root().obj = choice
        return
    for name, address in {"--listen": listen, "--websocket": websocket, "--administration": administration}.items():
        host, _ = address or LOOPBACK[:2]
        if host not in LOOPBACK and certificate is None and not plain_text:
            raise WrongUse(f"{name} {host} is reached from elsewhere: give --certificate, or allow --plain-text")
    if private_key is not None and certificate is None:
        raise WrongUse("--private-key belongs to a --certificate: give both")
    _refuse_without_extra()
    from pgqueue.gateway.server import run
    from pgqueue.gateway.settings import Settings

    log_to_stderr(log_level, log_format, with_process=False)
    settings = Settings(
        find(choice), choice.schema, listen, websocket, administration, certificate, private_key, _secret(),
        json_bodies=json_bodies, max_links=max_links,
    )  # fmt: skip
    try:
        asyncio.run(run(settings, _announce))
    except OSError as error:
        raise Failed(f"the gateway cannot listen, or read its certificate: {error}") from error


def _announce(gateway: Gateway, address: tuple[str, int]) -> None:
    kind = "amqp" if gateway.settings.certificate is None else "amqps"
    output.say(f"{kind}://{address[0]}:{address[1]}")
    output.flush()


@on_database(keys, "create")
def create(
    database: Database,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the key.")],
    role: Annotated[
        str | None,
        typer.Option(metavar="ROLE", help="The role that its clients are; by default, that of this command."),
    ] = None,
    endpoint: Annotated[
        str, typer.Option(metavar="HOST[:PORT]", help="Where clients find the gateway.")
    ] = "127.0.0.1:5672",
    tls: Annotated[bool, flag("tls", "The gateway has a certificate.")] = False,
) -> Result:
    """Make a key, and print the connection string with which a client connects.

    pgqueue gateway keys create shop --role shop
    """
    ring = _ring(database)
    as_role = role if role is not None else str(database.row("select current_user")[0])
    made = asyncio.run(ring.create(name, as_role))
    text = f"Endpoint=sb://{endpoint};SharedAccessKeyName={name};SharedAccessKey={made.value}"
    connection_string = text if tls else f"{text};UseDevelopmentEmulator=true"
    return Result({"name": name, "role": as_role, "connection_string": connection_string}, connection_string)


@on_database(keys, "list")
def list_(database: Database) -> Result:
    """List the keys, and the roles that their clients are."""
    nothing = "there is no key yet: `pgqueue gateway keys create NAME` makes one"
    return Result(asyncio.run(_ring(database).list()), picture=keys_table, hint=nothing)


@on_database(keys, "delete")
def delete(
    database: Database,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the key.")],
    yes: Yes = False,
) -> Result:
    """Delete a key. Gateways end the connections of its clients within a minute."""
    ask(f"Delete the key {name}?", yes)
    asyncio.run(_ring(database).drop(name))
    return Result({"name": name, "deleted": True}, f"key {name} deleted")


def _ring(database: Database) -> KeyRing:
    _refuse_without_extra()
    from pgqueue.gateway.keys import KeyRing

    return KeyRing(database.dsn, database.schema, _secret())


def _secret() -> bytes:
    return os.environ.get(SECRET, "").encode()


def _refuse_without_extra() -> None:
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
        import websockets  # noqa: F401
    except ImportError:
        raise Failed(REMEDY) from None
