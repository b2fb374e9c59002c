"""The listening socket: one task per connection, from startup to the end of its session."""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from typing import Final

from catalog.errors import SluiceError, SqlState
from gateway import as_of
from gateway.authentication import log_in, startup_message
from gateway.backend import Backend, Statement
from gateway.client import Client, ClientGoneError
from gateway.context import GatewayContext
from gateway.lake import computed
from gateway.messages import backend as answers
from gateway.messages import startup
from gateway.session import Session
from gateway.spreading import shut_down

_LOG: Final = logging.getLogger("sluice.server")
_CANCEL_KEY_BYTES: Final = 4
_DRAIN_SECONDS: Final = 0.05
# Whatever the role's defaults say, the session is written down.
_BEGIN: Final = Statement("BEGIN READ WRITE")
_ENTER: Final = "SELECT pg_sluice.enter($1, $2)"
_COMMIT: Final = Statement("COMMIT")


class Server:
    """`start`, then connections are served until `stop`."""

    def __init__(self, gateway: GatewayContext, tls: ssl.SSLContext | None) -> None:
        self._gateway = gateway
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], Client] = {}
        self._sessions: dict[asyncio.Task[None], Session] = {}

    async def start(self, host: str, port: int) -> None:
        """Listen; raises one clear error where the address cannot be had."""
        try:
            self._server = await asyncio.start_server(self._accept, host, port)
        except OSError as error:
            raise SluiceError(
                SqlState.CANNOT_CONNECT_NOW, f"cannot listen on {host}:{port}: {error.strerror}"
            ) from error

    @property
    def port(self) -> int:
        """The port that is listened on."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def drain(self, seconds: float) -> None:
        """Refuse new connections with 57P03, and end each session with 57P01 as soon as it runs nothing. Returns when
        none is left, or after so long."""
        self._gateway.stopping = True
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self._sessions and loop.time() < deadline:
            for task, session in self._sessions.items():
                if session.is_idle:
                    task.cancel()
            await asyncio.wait(list(self._sessions), timeout=_DRAIN_SECONDS)

    async def stop(self) -> None:
        """Refuse new connections and end those there are with 57P01."""
        if self._server is not None:
            self._server.close()
        connections = list(self._connections)
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Client(reader, writer)
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = client
        try:
            await self._serve(client)
        except ClientGoneError:
            pass
        except SluiceError as error:
            error.fields["S"] = error.fields["V"] = "FATAL"
            self._say(client, error)
        except asyncio.CancelledError:
            self._say(client, shut_down())
        except Exception as fault:  # noqa: BLE001  the connection's last resort: client and log hear of it
            _LOG.exception("a connection failed")
            self._say(
                client, SluiceError(SqlState.INTERNAL_ERROR, f"{type(fault).__name__}: {fault}", severity="FATAL")
            )
        finally:
            del self._connections[task]
            await client.close()

    @staticmethod
    def _say(client: Client, error: SluiceError) -> None:
        """The last word to a client, which may not be there any more."""
        try:
            client.send_error(error)
        except ClientGoneError:
            return

    async def _serve(self, client: Client) -> None:
        message = await startup_message(client, self._tls)
        if isinstance(message, startup.CancelRequest):
            await self._cancel(message)
            return
        if self._gateway.stopping:
            raise SluiceError(SqlState.CANNOT_CONNECT_NOW, "the gateway is shutting down")
        await self._gateway.gateways.serve()
        login = await log_in(client, self._gateway, message)
        backend = await Backend.connect(self._gateway.address, login.parameters, login.keys)
        key = backend.process_id, secrets.token_bytes(_CANCEL_KEY_BYTES)
        task = asyncio.current_task()
        assert task is not None
        try:
            enter = Statement(_ENTER, (self._gateway.token, str(self._gateway.gateways.number)))
            _, entered, *_ = await backend.run(_BEGIN, enter, as_of.DEFINE, computed.DEFINE, _COMMIT)
            [[started]] = entered.rows
            assert started is not None
            backend.started = int(started)
            session = Session(self._gateway, client, backend, login.user)
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

    async def _cancel(self, request: startup.CancelRequest) -> None:
        """Whether the key fits is told to nobody, as PostgreSQL does."""
        session = self._gateway.sessions.get((request.process_id, request.key))
        if session is not None:
            await session.cancel()
