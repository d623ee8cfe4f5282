"""Encryption of bodies in the client: the database holds ciphertext. Needs the extra ``pgqueue-tx[encryption]``."""

from __future__ import annotations

import base64
import hmac
import os
from collections.abc import Sequence

from pgqueue.errors import InvalidArgumentError
from pgqueue.model.cipher import MARK, is_encrypted

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.kdf.kbkdf import KBKDFCMAC, CounterLocation, Mode
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "encryption needs the extra: pip install 'pgqueue-tx[encryption]'", name=error.name
    ) from error

__all__ = ["EncryptedBodies"]

KEY_LENGTH = 32
ID_LENGTH = 8
NONCE_LENGTH = 24

#: An encrypted body: the mark and the id of its key, which are authenticated; the nonce; the ciphertext with its tag.
NONCE_AT = len(MARK) + ID_LENGTH
SEALED_AT = NONCE_AT + NONCE_LENGTH

#: The first byte of what is encrypted.
JSON, BYTES = b"j", b"b"


class EncryptedBodies:
    """Encrypts the bodies of a client's messages, and decrypts them where they are read. One of ``interceptors``.

    Subjects, ids, application properties, results and the size stay readable. A body is encrypted
    last and decrypted first, whatever the order of the list, so other interceptors and handlers see plain bodies.

    The first of ``keys`` encrypts, all of them decrypt. A body that is not encrypted is read as it is, unless
    ``require`` is given: then it cannot be read. See ``docs/encryption.md``.

    Raises:
        InvalidArgumentError: no key is given, one is given twice, or one is not of :meth:`generate_key`.
    """

    def __init__(self, keys: Sequence[str], *, require: bool = False) -> None:
        found = [] if isinstance(keys, str | None) else [_secret(key) for key in keys]
        del keys  # a traceback may show variables
        wrong = [place for place, secret in enumerate(found) if secret is None]
        self._keys = {key.id: key for key in map(_Key, filter(None, found))}
        is_repeated = len(self._keys) < len(found)
        is_empty = not found
        del found
        if wrong:
            raise InvalidArgumentError(f"keys[{wrong[0]}] is no key: make keys with EncryptedBodies.generate_key()")
        if is_empty or is_repeated:
            raise InvalidArgumentError("keys must be a list of at least one key, the newest first, each given once")
        self._newest = next(iter(self._keys.values()))
        self._require = require

    @staticmethod
    def generate_key() -> str:
        """Returns a new random key, as text."""
        return base64.urlsafe_b64encode(os.urandom(KEY_LENGTH)).decode()

    def __repr__(self) -> str:
        return f"EncryptedBodies({', '.join(each.hex() for each in self._keys)})"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("EncryptedBodies is not pickled, because its keys would be: make it where it is used")

    def encrypt(self, body: str | bytes) -> bytes:
        """The encrypted form of a body: JSON as text, or bytes."""
        header, nonce = MARK + self._newest.id, os.urandom(NONCE_LENGTH)
        plain = JSON + body.encode() if isinstance(body, str) else BYTES + body
        return header + nonce + self._newest.cipher(nonce).encrypt(nonce[12:], plain, header)

    def decrypt(self, raw: str | bytes) -> str | bytes:
        """The plain body. Raises ValueError, with a reason that quotes nothing of it."""
        if not isinstance(raw, bytes) or not is_encrypted(raw):
            if self._require:
                raise ValueError("it is not encrypted, and the client requires that")
            return raw
        header, nonce, sealed = raw[:NONCE_AT], raw[NONCE_AT:SEALED_AT], raw[SEALED_AT:]
        key_id = header[len(MARK) :]
        key = self._keys.get(key_id)
        if key is None:
            raise ValueError(f"it is encrypted with the key {key_id.hex()}, which the client does not have")
        try:
            plain = key.cipher(nonce).decrypt(nonce[12:], sealed, header)
        except (InvalidTag, ValueError):
            plain = b""
        if not plain:
            raise ValueError("it is encrypted, and was changed or cut since")
        return plain[1:].decode() if plain[:1] == JSON else plain[1:]


class _Key:
    """A key. Its id is derived from it, and precedes each body that it encrypts."""

    __slots__ = ("_secret", "id")

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self.id = hmac.digest(secret, b"pgqueue.encryption key id", "sha256")[:ID_LENGTH]

    def cipher(self, nonce: bytes) -> AESGCM:
        """XAES-256-GCM: each nonce has a key of its own, so random nonces are safe for any number of messages."""
        derive = KBKDFCMAC(
            AES, Mode.CounterMode, KEY_LENGTH, 2, None, CounterLocation.BeforeFixed, None, None, b"X\0" + nonce[:12]
        )
        return AESGCM(derive.derive(self._secret))


def _secret(key: object) -> bytes | None:
    """The bytes of a key; None if the text is no key."""
    try:
        secret = base64.b64decode(str(key), altchars=b"-_", validate=True)
    except ValueError:
        return None
    return secret if isinstance(key, str) and len(secret) == KEY_LENGTH else None
