"""Serves the gateway's connections: one task for each, from its first byte to the end of its session."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import ssl
from typing import Final

from catalog.background import end
from catalog.errors import SluiceError, SqlState
from gateway.backend.connection import Backend
from gateway.backend.own_message import Told
from gateway.backend.own_statement import Statement
from gateway.client.connection import Client, ClientGoneError
from gateway.execution.reading import postgres_query
from gateway.node.gateway_context import GatewayContext
from gateway.protocol.session import Session
from gateway.server.admission import Admission, Limits
from gateway.server.authentication import Login, log_in
from gateway.server.listener import connections, listen
from gateway.server.other_database import OtherDatabaseSession
from gateway.server.startup import Arrival
from gateway.session import as_of, hot_rows
from gateway.session.schema_propagation import shut_down
from gateway.statement import query_placement
from gateway.wire.messages import backend as answers
from gateway.wire.messages import startup

_LOG: Final = logging.getLogger("sluice.server")
_CANCEL_KEY_BYTES: Final = 4
_DRAIN_SECONDS: Final = 0.05
# READ WRITE, because the session is recorded, whatever the role's defaults are.
_BEGIN: Final = Statement("BEGIN READ WRITE")
_ENTER: Final = (
    "SELECT pg_sluice.enter($1, $2), 'pg_sluice.is_told(text[])'::pg_catalog.regprocedure::pg_catalog.oid::bigint"
)
_COMMIT: Final = Statement("COMMIT")


class Server:
    """After `start`, connections are served until `stop`."""

    def __init__(self, gateway: GatewayContext, tls: ssl.SSLContext | None, limits: Limits) -> None:
        self._gateway = gateway
        self._tls = tls
        self._admission = Admission(limits)
        self._login_seconds_max = limits.authentication_timeout
        self._listening: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._sessions: dict[asyncio.Task[None], Session | OtherDatabaseSession] = {}

    async def start(self, host: str, port: int) -> None:
        """Listen; raises one clear error if the address is unavailable."""
        try:
            self._listening = await listen(host, port)
        except OSError as error:
            raise SluiceError(
                SqlState.CANNOT_CONNECT_NOW, f"cannot listen on {host}:{port}: {error.strerror}"
            ) from error
        self._accepting = [asyncio.create_task(self._accept(listening)) for listening in self._listening]

    @property
    def port(self) -> int:
        """The listening port."""
        return int(self._listening[0].getsockname()[1])

    async def drain(self, seconds: float) -> None:
        """Refuse new connections with 57P03, and end each session with 57P01 once it runs nothing. Returns when none
        is left, or after `seconds`.
        """
        self._gateway.stopping = True
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self._sessions and loop.time() < deadline:
            for task, session in self._sessions.items():
                if session.is_idle:
                    task.cancel()
            await asyncio.wait(list(self._sessions), timeout=_DRAIN_SECONDS)

    async def stop(self) -> None:
        """Refuse new connections, and end existing ones with 57P01."""
        for accepting in self._accepting:
            await end(accepting)
        for listening in self._listening:
            listening.close()
        connections = list(self._connections)
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _accept(self, listening: socket.socket) -> None:
        async for connection, address in connections(listening):
            task = asyncio.create_task(self._connection(connection, address))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

    async def _connection(self, connection: socket.socket, address: str) -> None:
        arrival = Arrival(connection, address, self._tls)
        try:
            found = await self._login(arrival, address)
            if found is not None:
                client, login = found
                with self._admission.session(may_use_reserved=login.may_use_reserved):
                    await self._serve(client, login)
        except ClientGoneError:
            pass
        except SluiceError as error:
            error.fields["S"] = error.fields["V"] = "FATAL"
            arrival.refuse(error)
        except asyncio.CancelledError:
            arrival.refuse(shut_down())
        except Exception as fault:  # noqa: BLE001  the connection's last resort: client and log hear of it
            _LOG.exception("a connection failed")
            arrival.refuse(SluiceError(SqlState.INTERNAL_ERROR, f"{type(fault).__name__}: {fault}", severity="FATAL"))
        finally:
            await arrival.close()

    async def _login(self, arrival: Arrival, address: str) -> tuple[Client, Login] | None:
        """The client's login; None if it only sent a CancelRequest. After the timeout the connection is closed without
        a message, as in PostgreSQL.
        """
        try:
            with self._admission.entering(address):
                async with asyncio.timeout(self._login_seconds_max) as limit:
                    wish = await arrival.wish()
                    if isinstance(wish, startup.CancelRequest):
                        await self._cancel(wish)
                        return None
                    client = await arrival.client()
                    if self._gateway.stopping:
                        raise SluiceError(SqlState.CANNOT_CONNECT_NOW, "the gateway is shutting down")
                    self._admission.check()
                    await self._gateway.gateways.serve()
                    return client, await log_in(client, self._gateway, wish)
        except TimeoutError:
            if limit.expired():
                raise ClientGoneError from None
            raise

    async def _serve(self, client: Client, login: Login) -> None:
        backend = await Backend.connect(self._gateway.address, login.parameters, login.keys)
        key = backend.process_id, secrets.token_bytes(_CANCEL_KEY_BYTES)
        task = asyncio.current_task()
        assert task is not None
        try:
            session: Session | OtherDatabaseSession
            if login.database == self._gateway.database:
                session = await self._session(client, backend, login)
            else:
                session = OtherDatabaseSession(client, backend, self._gateway.database)
            self._gateway.sessions[key] = session
            self._sessions[task] = session
            greeting = (
                answers.AuthenticationOk(),
                *(answers.ParameterStatus(name, value) for name, value in backend.parameters.items()),
                answers.BackendKeyData(*key),
                answers.ReadyForQuery(backend.status),
            )
            client.relay(b"".join(message.encode() for message in greeting))
            await client.drain()
            await session.run()
        finally:
            self._sessions.pop(task, None)
            self._gateway.sessions.pop(key, None)
            backend.close()

    async def _session(self, client: Client, backend: Backend, login: Login) -> Session:
        number = self._gateway.gateways.number
        entered = await self._gateway.store.pool.fetchrow(_ENTER, backend.process_id, number)
        assert entered is not None
        backend.started, told = entered
        backend.told = Told(told)
        engine = query_placement.define(self._gateway.engine_default)
        await backend.run(_BEGIN, as_of.DEFINE, postgres_query.DEFINE, hot_rows.DEFINE, engine, _COMMIT)
        return Session(self._gateway, client, backend, login.user)

    async def _cancel(self, request: startup.CancelRequest) -> None:
        """Handle a CancelRequest; as in PostgreSQL, the client does not learn whether its key is right."""
        session = self._gateway.sessions.get((request.process_id, request.key))
        if session is not None:
            await session.cancel()
