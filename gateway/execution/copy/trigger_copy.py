"""COPY … FROM STDIN into a table with triggers: PostgreSQL executes it, like other statements that fire triggers.

It may have to be executed again, so all of the client's data is received first, and kept, in a file if large.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from catalog.errors import unsupported
from gateway.backend.copies import copy_pieces, try_copy
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import TRIAL
from gateway.copy_format import CopyFormat
from gateway.execution.copy.copy_columns import copied_columns
from gateway.execution.copy.copy_encoding import LOOK
from gateway.execution.copy.copy_in import copied_data
from gateway.execution.functions.trigger_statement import TriggeredPortal
from gateway.execution.reading.copy_trial import options_of
from gateway.execution.reading.postgres_query import LIMIT, LOAD_LIMIT
from gateway.execution.shadow.trigger_bypass import bypass_triggers
from gateway.session.response_spool import ResponseSpool
from gateway.session.visibility import latest, rules
from gateway.wire.messages.copy import CopyInResponse
from storage.spool.byte_spool import KeptBytes

_LIMIT: Final = Statement(f"SELECT pg_catalog.pg_size_bytes({LIMIT})")
_PIECE_BYTES: Final = 1 << 20
_HINT: Final = f"{LOAD_LIMIT} limits the data. DISABLE TRIGGER lets any number of rows come in."


class TriggeredCopyPortal(TriggeredPortal):
    """COPY table [(columns)] FROM STDIN [WHERE condition]."""

    async def run(self) -> None:
        self._kept = KeptBytes()
        try:
            await super().run()
        finally:
            self._kept.close()

    async def prepare(self) -> None:
        """Receive the client's data."""
        session = self.session
        assert self.routed.query is not None
        statement = self.routed.query.utilityStmt
        if statement.filename is not None:
            raise unsupported("COPY from or to a file of the server or a program")
        table = (await latest(session, self.routed.lake[0])).table
        refusal = await try_copy(
            session.backend, self.analysis.sql, [TRIAL.begin, *bypass_triggers([table])], TRIAL.undo
        )
        columns = copied_columns(table, statement.attlist, (await rules(session, table)).generated)
        options = options_of(self.routed, [column.name for column in columns])
        if options.freeze:
            raise unsupported("COPY … FREEZE into a table that has triggers")
        form = int(options.format is CopyFormat.BINARY)
        async with session.timeouts.out_of_window():
            session.send_noted(CopyInResponse(bytes([form]), (form,) * len(columns)))
            await session.client.drain()
            if refusal is not None:
                raise refusal
            await self._take()

    async def _take(self) -> None:
        [limit] = await self.session.backend.run(_LIMIT)
        most = int(limit.rows[0][0] or 0)
        async for data in copied_data(self.session):
            if data is LOOK:
                continue
            if self._kept.size + len(data) > most:
                raise unsupported("COPY of so many rows into a table that has triggers", hint=_HINT)
            if self._kept.spills(len(data)):
                await asyncio.to_thread(self._kept.append, data)
            else:
                self._kept.append(data)

    async def _pieces(self) -> AsyncIterator[bytes]:
        for start in range(0, self._kept.size, _PIECE_BYTES):
            yield await asyncio.to_thread(self._kept.read, start, _PIECE_BYTES)

    async def perform(self, answers: ResponseSpool | None) -> str:
        assert answers is not None
        in_utf8 = not self.session.encoding.converts
        return await copy_pieces(self.session.backend, self.analysis.sql, self._pieces(), answers.keep, in_utf8=in_utf8)
