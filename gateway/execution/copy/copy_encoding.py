"""COPY's data in other encodings than UTF-8: PostgreSQL converts it part by part, to and from UTF-8."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from catalog.datatypes import BYTEA
from catalog.errors import SluiceError
from gateway.backend.connection import BackendLostError
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import TRIAL
from gateway.execution.shadow.shadow import rows_of_bodies
from gateway.values.binary import binary_array

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

_DECODE: Final = "SELECT pg_catalog.convert($1::pg_catalog.bytea, $2::pg_catalog.name, 'UTF8')"
_ENCODE: Final = (
    "SELECT pg_catalog.convert(line, 'UTF8', $2::pg_catalog.name)"
    " FROM pg_catalog.unnest($1::pg_catalog.bytea[]) AS lines (line)"
)
_PART_BYTES: Final = 1 << 20
# A marker among the pieces of a COPY's data: judge the data so far before waiting for more.
LOOK: Final = b""
_PART_LINES: Final = 8192


class Decoder:
    """Use: `async for piece in decoder.pieces(data)`, which gives complete lines in UTF-8. `error` then says why it
    ended early.

    `backend` is locked while the session's backend converts; between parts others may use it.
    """

    def __init__(self, session: SessionContext, encoding: str, backend: asyncio.Lock) -> None:
        self._session = session
        self._encoding = encoding
        self._backend = backend
        self.error: SluiceError | None = None

    async def pieces(self, data: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
        waiting, size, wanted = list[bytes](), 0, _PART_BYTES
        async for piece in data:
            waiting.append(piece)
            size += len(piece)
            if size < wanted and piece:
                continue
            block = b"".join(waiting)
            # In every encoding, the byte of a line's end is no part of another character.
            end = max(block.rfind(b"\n"), block.rfind(b"\r")) + 1
            waiting, size = [block[end:]], len(block) - end
            wanted = max(_PART_BYTES, 2 * size)
            if end:
                yield await self._lines(block[:end])
            if self.error is not None:
                return
            if not piece:
                yield LOOK
        yield await self._lines(b"".join(waiting))

    async def _lines(self, block: bytes) -> bytes:
        """The lines before the first that cannot be converted."""
        try:
            return await self._converted(block)
        except BackendLostError:
            raise
        except SluiceError as error:
            self.error = error
        octets = np.frombuffer(block, np.uint8)
        ends = np.append(np.flatnonzero((octets == ord("\n")) | (octets == ord("\r"))) + 1, len(block))
        # Numbers of line ends: the conversion succeeds up to the first, and fails up to the second.
        good, bad, found = -1, len(ends) - 1, b""
        while bad - good > 1:
            middle = (good + bad) // 2
            begin = 0 if good < 0 else int(ends[good])
            try:
                found += await self._converted(block[begin : int(ends[middle])])
                good = middle
            except BackendLostError:
                raise
            except SluiceError as error:
                self.error, bad = error, middle
        return found

    async def _converted(self, block: bytes) -> bytes:
        backend = self._session.backend
        statement = Statement(_DECODE, (block, self._encoding), parameter_formats=(1, 0), result_format=1)
        async with self._backend:
            try:
                [_, result, *_] = await backend.run(TRIAL.begin, statement, *TRIAL.undo)
            except BackendLostError:
                raise
            except SluiceError:
                await backend.run(*TRIAL.undo)
                raise
        return result.rows[0][0] or b""


async def encoded(
    session: SessionContext, lines: pa.BinaryArray, encoding: str
) -> AsyncIterator[tuple[pa.BinaryArray, SluiceError | None]]:
    """The lines in another encoding, part by part; the last part comes with the error of the rest."""
    for start in range(0, len(lines), _PART_LINES):
        bodies: list[bytes] = []

        async def take(part: list[bytes], bodies: list[bytes] = bodies) -> None:
            bodies += part

        statement = Statement(
            _ENCODE,
            (binary_array(lines.slice(start, _PART_LINES), BYTEA), encoding),
            parameter_formats=(1, 0),
            result_format=1,
            bodies_only=True,
            take=take,
        )
        refusal: SluiceError | None = None
        try:
            [result] = await session.backend.run(statement)
            bodies += result.bodies
        except BackendLostError:
            raise
        except SluiceError as error:
            refusal = error
        batches = await asyncio.to_thread(rows_of_bodies, ["line"], bodies)
        columns = [batch.column(0) for batch in batches]
        yield pa.concat_arrays(columns) if columns else pa.array([], pa.binary()), refusal
        if refusal is not None:
            return
