"""SCRAM-SHA-256 (RFC 5802, RFC 7677) as PostgreSQL uses it, both sides, without I/O.

The server side verifies a client against the verifier in pg_authid.rolpassword, and recovers the ClientKey from the
proof. With that, the client side can log in to PostgreSQL as the same role; no password is known or kept. Source:
PostgreSQL documentation, "SASL Authentication"; scram-common.c for the form of a verifier.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from typing import Final

from catalog.errors import SluiceError, SqlState
from gateway.wire.messages.layout import violation

MECHANISM: Final = "SCRAM-SHA-256"
_VERIFIER: Final = re.compile(r"SCRAM-SHA-256\$(\d+):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)")
# n: the client has no channel binding; y: it has, and believes rightly that the server has not.
_CLIENT_FIRST: Final = re.compile(rb"([ny]),(?:a=[^,]*)?,(n=[^,]*,r=([\x21-\x2b\x2d-\x7e]+)(?:,.*)?)")
_CLIENT_FINAL: Final = re.compile(
    rb"(c=([A-Za-z0-9+/=]+),r=([\x21-\x2b\x2d-\x7e]+)(?:,[^p][^,]*)*),p=([A-Za-z0-9+/=]+)"
)
_SERVER_FIRST: Final = re.compile(rb"r=([\x21-\x2b\x2d-\x7e]+),s=([A-Za-z0-9+/=]+),i=(\d+)(?:,.*)?")
_NONCE_BYTES: Final = 18
_MOCK_ITERATIONS: Final = 4096
_MOCK_SALT_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Verifier:
    """`SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`, parsed."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    @staticmethod
    def parse(text: str | None) -> Verifier | None:
        """None if the text is no SCRAM verifier."""
        found = None if text is None else _VERIFIER.fullmatch(text)
        if found is None:
            return None
        iterations, *encoded = found.groups()
        return Verifier(int(iterations), *(base64.b64decode(part) for part in encoded))


@dataclass(frozen=True, slots=True)
class ClientKeys:
    """The keys that prove knowledge of the password to a server with the same verifier."""

    client_key: bytes
    server_key: bytes


class ScramServer:
    """`first(message)` gives server-first, then `final(message)` gives server-final; afterwards `keys` is known.

    Without a verifier the exchange looks the same, with a salt that `secret` and `role` determine. So roles without a
    password cannot be distinguished. `final` then raises 28P01, as for a wrong password.
    """

    def __init__(self, verifier: Verifier | None, role: str, secret: bytes, nonce: bytes | None = None) -> None:
        self._role = role
        self._known = verifier is not None
        salt = hmac.digest(secret, b"mock salt " + role.encode(), "sha256")[:_MOCK_SALT_BYTES]
        self._verifier = verifier or Verifier(_MOCK_ITERATIONS, salt, secrets.token_bytes(32), secrets.token_bytes(32))
        self._own_nonce = nonce or base64.b64encode(secrets.token_bytes(_NONCE_BYTES))
        self._flag = b""
        self._nonce = b""
        self._exchange = b""
        self.keys: ClientKeys | None = None

    def first(self, message: bytes) -> bytes:
        """From client-first-message to server-first-message. Raises 08P01 for an invalid message."""
        found = _CLIENT_FIRST.fullmatch(message)
        if found is None:
            raise violation("malformed SCRAM message")
        self._flag = found.group(1)
        self._nonce = found.group(3) + self._own_nonce
        salt = base64.b64encode(self._verifier.salt)
        reply = b"r=%b,s=%b,i=%d" % (self._nonce, salt, self._verifier.iterations)
        self._exchange = found.group(2) + b"," + reply
        return reply

    def final(self, message: bytes) -> bytes:
        """From client-final-message to server-final-message. Raises 28P01 for a wrong proof."""
        found = _CLIENT_FINAL.fullmatch(message)
        if found is None:
            raise violation("malformed SCRAM message")
        unsigned, binding, nonce, proof = found.groups()
        if nonce != self._nonce or _decoded(binding) != self._flag + b",,":
            raise violation("SCRAM nonce or channel binding does not match")
        exchange = self._exchange + b"," + unsigned
        signature = hmac.digest(self._verifier.stored_key, exchange, "sha256")
        client_key = _xor(_decoded(proof), signature)
        good = hmac.compare_digest(hashlib.sha256(client_key).digest(), self._verifier.stored_key)
        if not (good and self._known):
            raise SluiceError(
                SqlState.INVALID_PASSWORD,
                f'password authentication failed for user "{self._role}"',
                severity="FATAL",
            )
        self.keys = ClientKeys(client_key, self._verifier.server_key)
        return b"v=" + base64.b64encode(hmac.digest(self._verifier.server_key, exchange, "sha256"))


class ScramClient:
    """The client's side, with keys in place of a password: `first()`, `reply(server_first)`, `verify(server_final)`."""

    def __init__(self, keys: ClientKeys, nonce: bytes | None = None) -> None:
        self._keys = keys
        self._nonce = nonce or base64.b64encode(secrets.token_bytes(_NONCE_BYTES))
        self._bare = b"n=,r=" + self._nonce  # PostgreSQL takes the role from the startup message
        self._exchange = b""

    def first(self) -> bytes:
        """client-first-message."""
        return b"n,," + self._bare

    def reply(self, server_first: bytes) -> bytes:
        """client-final-message. Raises 08P01 for a server that violates the protocol."""
        found = _SERVER_FIRST.fullmatch(server_first)
        if found is None or not found.group(1).startswith(self._nonce):
            raise violation("malformed SCRAM message")
        unsigned = b"c=biws,r=" + found.group(1)
        self._exchange = self._bare + b"," + server_first + b"," + unsigned
        stored_key = hashlib.sha256(self._keys.client_key).digest()
        proof = _xor(self._keys.client_key, hmac.digest(stored_key, self._exchange, "sha256"))
        return unsigned + b",p=" + base64.b64encode(proof)

    def verify(self, server_final: bytes) -> None:
        """Raises 28000 if the server does not know the password."""
        expected = b"v=" + base64.b64encode(hmac.digest(self._keys.server_key, self._exchange, "sha256"))
        if not hmac.compare_digest(server_final, expected):
            raise SluiceError(
                SqlState.INVALID_AUTHORIZATION, "the catalog's SCRAM signature is wrong", severity="FATAL"
            )


def _decoded(text: bytes) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise violation("malformed SCRAM message") from None


def _xor(left: bytes, right: bytes) -> bytes:
    if len(left) != len(right):
        raise violation("malformed SCRAM message")
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
