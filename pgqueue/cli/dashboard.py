"""``pgqueue dashboard``: what the queues do, in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pgqueue.cli import output
from pgqueue.cli.connection import Database, on_database
from pgqueue.cli.failures import Failed, WrongUse, binding
from pgqueue.cli.group import top
from pgqueue.cli.options import flag
from pgqueue.cli.quantities import parse_host

REMEDY = "the dashboard needs the extra dashboard: pip install 'pgqueue-tx[dashboard]'"


def _print_account(role: str | None) -> None:
    """Print a line for --accounts, and end: this takes no database."""
    if role is None:
        return
    _refuse_without_extra()
    from pgqueue.dashboard.security import hash_password

    password = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    output.say(f"{role}:{hash_password(password)}")
    raise typer.Exit


@on_database(top, "dashboard", short_help="Show all of it in a browser, and repair it there.")
def dashboard(
    database: Database,
    host: Annotated[
        str, typer.Option(help="The address to listen on.", metavar="TEXT", parser=parse_host)
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes any free one.")] = 8420,
    writable: Annotated[bool, flag("writable", "Allow actions, such as to resubmit dead letters.")] = False,
    accounts: Annotated[Path | None, typer.Option(metavar="FILE", help="The accounts: lines of role:hash.")] = None,
    proxy_header: Annotated[
        str | None, typer.Option(metavar="NAME", help="The header in which a proxy names the database role.")
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="A proxy whose header is trusted; by default this machine."),
    ] = None,
    hash_password: Annotated[  # noqa: ARG001 - its callback ends the command
        str | None,
        typer.Option(
            metavar="ROLE",
            help="Ask for a password, print the line for --accounts, and exit.",
            callback=_print_account,
            is_eager=True,
        ),
    ] = None,
) -> None:
    """Serve a dashboard: queues, messages, dead letters and workers, at http://127.0.0.1:8420.

    It changes nothing unless it is --writable, and then with the rights of the database role that is signed in;
    without sign-in, of the role that it is connected as. On another address than this machine's it needs --accounts or
    --proxy-header, and a proxy in front that speaks HTTPS.
    """
    _refuse_without_extra()
    from pgqueue.dashboard.settings import Settings, is_loopback, read_accounts

    if not is_loopback(host) and accounts is None and proxy_header is None:
        raise WrongUse(
            f"{host} is reached from elsewhere, without any sign-in: give --accounts FILE, or --proxy-header NAME"
        )
    try:
        known = {} if accounts is None else read_accounts(accounts)
    except ValueError as error:
        raise WrongUse(str(error)) from None
    trusted = tuple(trusted_proxy or Settings.trusted_proxies)
    settings = Settings(database.dsn, writable, known, proxy_header, trusted, database.schema)
    _serve(settings, host, port)


def _refuse_without_extra() -> None:
    try:
        import argon2  # noqa: F401
        import fastapi  # noqa: F401
        import jinja2  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise Failed(REMEDY) from None


def _serve(settings: Any, host: str, port: int) -> None:
    import socket

    import uvicorn

    from pgqueue.dashboard.app import create_app

    config = uvicorn.Config(
        create_app(settings), host, port, log_level="warning", proxy_headers=False, server_header=False,
        timeout_graceful_shutdown=2,
    )  # fmt: skip
    with binding(port, "--port"):
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    address, bound, *_ = listening.getsockname()
    name = f"[{address}]" if ":" in address else address
    output.say(f"http://{name}:{bound}/{'' if settings.is_writable else '  (read-only; --writable allows actions)'}")
    output.flush()
    uvicorn.Server(config).run([listening])
