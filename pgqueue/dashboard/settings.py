"""How a dashboard is started."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pgqueue.model.schemas import DEFAULT

LOOPBACK = "localhost", "127.0.0.1", "::1"


@dataclass(frozen=True)
class Settings:
    """The database of a dashboard, its users, and whether it may change anything."""

    dsn: str = field(repr=False)
    is_writable: bool = False
    #: Hashes of passwords by the database role that signs in with them; empty for no sign-in.
    accounts: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: The header in which a reverse proxy names the database role; believed of these addresses only.
    proxy_header: str | None = None
    trusted_proxies: tuple[str, ...] = ("127.0.0.1", "::1")
    #: Where pgqueue is installed in the database.
    schema: str = DEFAULT

    @property
    def is_open(self) -> bool:
        """Whether anybody who reaches it may look, with the rights of the dashboard's own role."""
        return not self.accounts and self.proxy_header is None


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_accounts(path: Path) -> dict[str, str]:
    """Read a file of lines ``role:hash``, as ``pgqueue dashboard --hash-password`` prints them.

    Raises ValueError with the number of the line that is not one.
    """
    accounts = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        role, _, digest = line.strip().rpartition(":")
        if not role or not digest.startswith("$argon2"):
            raise ValueError(
                f"line {number} of {path} is not role:hash: `pgqueue dashboard --hash-password ROLE` makes one"
            )
        accounts[role] = digest
    if not accounts:
        raise ValueError(f"{path} has no account: `pgqueue dashboard --hash-password ROLE` makes one")
    return accounts
