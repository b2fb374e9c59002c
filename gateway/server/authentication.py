"""Authenticates clients by SCRAM, against the catalog's own verifiers.

A role with a SCRAM-SHA-256 password must prove it, from any address, until it expires (VALID UNTIL). A role without a
password is trusted from loopback and refused from other addresses. Superusers of the catalog are refused, because
their SQL could change the gateway's own metadata.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

from catalog.errors import SluiceError, SqlState
from gateway.client.connection import Client
from gateway.node.gateway_context import GatewayContext
from gateway.wire.messages import backend as answers
from gateway.wire.messages import frontend, startup
from gateway.wire.scram import MECHANISM, ClientKeys, ScramServer, Verifier

_ROLE: Final = "SELECT verifier, expired, is_own, reserved FROM pg_sluice.login($1)"
# Startup parameters of the connection itself, which are not settings of the backend.
_NOT_PASSED_ON: Final = frozenset({"user", "database", "replication"})
# The gateway reads the rows of shadows through views. The client's own options come later, and count.
_FIRST_OPTION: Final = "-crestrict_nonsystem_relation_kind="


@dataclass(frozen=True, slots=True)
class Login:
    """The authenticated role, with the parameters for the backend, and the keys that prove the role there (None if
    trusted).

    `may_use_reserved` says whether the role may use a reserved connection (`gateway.server.admission`).
    """

    user: str
    database: str
    parameters: tuple[tuple[str, str], ...]
    keys: ClientKeys | None
    may_use_reserved: bool


async def log_in(client: Client, gateway: GatewayContext, message: startup.StartupMessage) -> Login:
    """Negotiate the protocol version and authenticate. Raises FATAL errors."""
    parameters = dict(message.parameters)
    extensions = tuple(name for name in parameters if name.startswith("_pq_."))
    if message.version > startup.PROTOCOL_3_0 or extensions:
        client.send(answers.NegotiateProtocolVersion(startup.PROTOCOL_3_0, extensions))
    user = parameters.get("user")
    if not user:
        raise _fatal(SqlState.INVALID_AUTHORIZATION, "no PostgreSQL user name specified in startup packet")
    if parameters.get("replication", "false") not in ("false", "off", "no", "0"):
        raise _fatal(SqlState.FEATURE_NOT_SUPPORTED, "replication connections are not supported")
    database = parameters.get("database") or user
    keys, may_use_reserved = await _authenticate(client, gateway, user)
    if database != gateway.database and database not in gateway.other_databases:
        raise _fatal(
            "3D000",
            f'database "{database}" is not served by this gateway',
            hint=f'The lake is in database "{gateway.database}".',
        )
    passed_on = {
        name: value for name, value in parameters.items() if name not in _NOT_PASSED_ON and not name.startswith("_pq_.")
    }
    passed_on["options"] = f"{_FIRST_OPTION} {passed_on.get('options', '')}".rstrip(" ")
    named = (("user", user), ("database", database), *passed_on.items())
    return Login(user, database, named, keys, may_use_reserved)


async def _authenticate(client: Client, gateway: GatewayContext, user: str) -> tuple[ClientKeys | None, bool]:
    async with gateway.login_lookups:
        rows = await gateway.store.fetch(_ROLE, user)
    password = rows[0]["verifier"] if rows else None
    may_use_reserved = bool(rows) and rows[0]["reserved"]
    if rows and rows[0]["is_own"]:
        raise _fatal(
            SqlState.INVALID_AUTHORIZATION,
            f'role "{user}" has rights on the catalog itself and cannot connect through the gateway',
        )
    if password is None and _is_local(client.peer):
        return None, may_use_reserved
    # As in PostgreSQL, an expired password looks like a wrong one.
    verifier = None if rows and rows[0]["expired"] else Verifier.parse(password)
    server = ScramServer(verifier, user, gateway.mock_nonce.encode())
    client.send(answers.AuthenticationSASL((MECHANISM,)))
    first = frontend.SASLInitialResponse.decode(await _sasl_body(client))
    if first.mechanism != MECHANISM:
        raise _fatal(SqlState.PROTOCOL_VIOLATION, "client selected an invalid SASL authentication mechanism")
    client.send(answers.AuthenticationSASLContinue(server.first(first.response or b"")))
    final = server.final(frontend.SASLResponse.decode(await _sasl_body(client)).data)
    client.send(answers.AuthenticationSASLFinal(final))
    return server.keys, may_use_reserved


async def _sasl_body(client: Client) -> bytes:
    await client.drain()
    return await client.sasl_body()


def _is_local(peer: str) -> bool:
    return ipaddress.ip_address(peer).is_loopback


def _fatal(sqlstate: str, message: str, hint: str | None = None) -> SluiceError:
    return SluiceError(sqlstate, message, hint=hint, severity="FATAL")
