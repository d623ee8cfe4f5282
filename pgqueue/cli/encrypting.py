"""``pgqueue encryption``: keys, and the keys that all commands and workers have by the environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pgqueue.cli import output
from pgqueue.cli.failures import Failed, WrongUse
from pgqueue.cli.group import Group, top
from pgqueue.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pgqueue.encryption import EncryptedBodies

#: The keys, separated by commas, the newest first.
KEYS = "PGQUEUE_ENCRYPTION_KEYS"

encryption = Group(no_args_is_help=True, help="Make keys for encrypted bodies.")
top.add_typer(encryption, name="encryption")


@encryption.command("generate-key")
def generate_key() -> None:
    """Print a new random key. PGQUEUE_ENCRYPTION_KEYS holds keys separated by commas, the newest first."""
    output.say(_bodies().generate_key())


def from_environment() -> list[EncryptedBodies]:
    """The interceptor for the keys of the environment, if there are any."""
    given = os.environ.get(KEYS)
    if not given:
        return []
    try:
        return [_bodies()([key.strip() for key in given.split(",")])]
    except InvalidArgumentError as error:
        raise WrongUse(f"{KEYS}: {error.args[0]}") from None


def _bodies() -> type[EncryptedBodies]:
    try:
        from pgqueue.encryption import EncryptedBodies
    except ImportError:
        raise Failed("encryption needs the extra: pip install 'pgqueue-tx[encryption]'") from None
    return EncryptedBodies
