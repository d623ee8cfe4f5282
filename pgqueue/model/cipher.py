"""Encrypted bodies: how they are recognized, and the protocol that encrypts and decrypts them."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

#: The first bytes of an encrypted body, with the version of its format.
MARK = b"\x93pgqenc\x01"


@runtime_checkable
class Cipher(Protocol):
    """Encrypts bodies, and decrypts them."""

    def encrypt(self, body: str | bytes) -> bytes:
        """The encrypted form of a body: JSON as text, or bytes."""

    def decrypt(self, raw: str | bytes) -> str | bytes:
        """The plain body. Raises ValueError, with a reason that quotes nothing of it."""


#: Why a client without keys cannot read an encrypted body.
NO_KEYS = "it is encrypted, and the client has no keys: give it EncryptedBodies(keys) of pgqueue.encryption"


def is_encrypted(raw: str | bytes | None) -> bool:
    """Whether a body as the queue holds it is encrypted."""
    return isinstance(raw, bytes) and raw.startswith(MARK)
