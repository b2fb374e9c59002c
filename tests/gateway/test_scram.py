"""Both sides of SCRAM, against each other and with a verifier that PostgreSQL made."""

from __future__ import annotations

import base64
import hashlib
import hmac

import asyncpg
import pytest

from catalog.errors import SluiceError
from catalog.postgres.embedded import EmbeddedPostgres
from gateway.wire.scram import ClientKeys, ScramClient, ScramServer, Verifier

_SECRET = b"secret"


def _keys(password: str, verifier: Verifier) -> ClientKeys:
    """RFC 5802, section 3."""
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), verifier.salt, verifier.iterations)
    return ClientKeys(hmac.digest(salted, b"Client Key", "sha256"), hmac.digest(salted, b"Server Key", "sha256"))


@pytest.fixture
async def verifier(postgres: EmbeddedPostgres) -> Verifier:
    connection = await asyncpg.connect(postgres.dsn)
    try:
        await connection.execute("DROP ROLE IF EXISTS scram_role; CREATE ROLE scram_role PASSWORD 'pässword'")
        found = Verifier.parse(
            await connection.fetchval("SELECT rolpassword FROM pg_authid WHERE rolname = 'scram_role'")
        )
    finally:
        await connection.close()
    assert found is not None
    return found


def _exchange(client: ScramClient, server: ScramServer) -> None:
    client.verify(server.final(client.reply(server.first(client.first()))))


async def test_the_right_password_and_the_keys_that_it_leaves(verifier: Verifier) -> None:
    server = ScramServer(verifier, "scram_role", _SECRET)
    _exchange(ScramClient(_keys("pässword", verifier)), server)
    assert server.keys == _keys("pässword", verifier)
    # With what was learnt, the gateway can itself log in.
    _exchange(ScramClient(server.keys), ScramServer(verifier, "scram_role", _SECRET))


async def test_the_wrong_password(verifier: Verifier) -> None:
    server = ScramServer(verifier, "scram_role", _SECRET)
    with pytest.raises(SluiceError, match="password authentication failed") as refusal:
        _exchange(ScramClient(_keys("password", verifier)), server)
    assert refusal.value.sqlstate == "28P01"
    assert server.keys is None


def test_a_role_without_password_looks_like_any_other() -> None:
    client = ScramClient(ClientKeys(bytes(32), bytes(32)))
    replies = [ScramServer(None, "nobody", _SECRET).first(client.first()).split(b",s=")[1] for _ in range(2)]
    assert replies[0] == replies[1]
    with pytest.raises(SluiceError, match="password authentication failed"):
        _exchange(client, ScramServer(None, "nobody", _SECRET))


def test_the_example_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    keys = _keys("pencil", Verifier(4096, salt, b"", b""))
    verifier = Verifier(4096, salt, hashlib.sha256(keys.client_key).digest(), keys.server_key)
    server = ScramServer(verifier, "user", _SECRET, nonce=b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    first = server.first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = server.final(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize("message", [b"", b"p=tls-unique,,n=,r=abc", b"n,,n=", b"n,,r=abc", b"\xff\xff"])
def test_what_is_no_client_first_message(message: bytes) -> None:
    with pytest.raises(SluiceError) as refusal:
        ScramServer(None, "role", _SECRET).first(message)
    assert refusal.value.sqlstate == "08P01"


@pytest.mark.parametrize(
    "message", [b"", b"c=biws,r=other,p=AAAA", b"c=eSws,r={nonce},p=AAAA", b"c=biws,r={nonce},p=!"]
)
def test_what_is_no_client_final_message(message: bytes) -> None:
    server = ScramServer(None, "role", _SECRET, nonce=b"server")
    server.first(b"n,,n=,r=client")
    with pytest.raises(SluiceError) as refusal:
        server.final(message.replace(b"{nonce}", b"clientserver"))
    assert refusal.value.sqlstate == "08P01"
