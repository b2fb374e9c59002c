"""ON_ERROR ignore: finds the rows that PostgreSQL has skipped, and relays the notices of its COPY."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from catalog.errors import SluiceError, SqlState
from gateway.backend.own_statement import Statement
from gateway.copy_format import CopyBatch, CopyOptions, LogVerbosity
from gateway.values.cells import Mask
from gateway.wire.messages.backend import NoticeResponse

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

_SKIPPED: Final = re.compile(
    r'(skipping row due to data type incompatibility at line )(\d+)( for column ")(.*)', re.DOTALL
)
_IN_ALL: Final = re.compile(r"\d+ rows? (was|were) skipped due to data type incompatibility")
_LEVEL: Final = Statement("SHOW client_min_messages")
# client_min_messages levels without notices.
_DEAF: Final = (b"warning", b"error")
# In the savepoint around the rows: PostgreSQL must report each row that it skips.
SAY_ALL: Final = Statement("SELECT pg_catalog.set_config('client_min_messages', 'notice', true)")


class SkippedRows:
    """The skipped rows of one COPY, over all parts of its data; `begin` before the first."""

    def __init__(self, session: SessionContext, relation: str, names: Sequence[str], options: CopyOptions) -> None:
        self._session = session
        self._relation = relation
        self._names = names
        self._options = options
        self._count = 0
        self._heard = True

    async def begin(self) -> None:
        """Ask for the client's message level."""
        if self._options.ignores_errors:
            [level] = await self._session.backend.run(_LEVEL)
            self._heard = level.rows[0][0] not in _DEAF

    def take(self, notices: Sequence[NoticeResponse], batch: CopyBatch) -> Mask:
        """Read PostgreSQL's notices about these rows: relay them as the client's level says, and return which rows
        were accepted.

        Raises 22P02 above REJECT_LIMIT.
        """
        kept = np.ones(batch.fields.num_rows, np.bool_)
        if not self._options.ignores_errors:
            return kept
        about = [_SKIPPED.fullmatch(dict(notice.fields)["M"]) for notice in notices]
        rows = iter(batch.source.rows_at([int(found[2]) for found in about if found]).tolist())
        for notice, found in zip(notices, about, strict=True):  # one for each skipped row
            if found is None:
                fields = dict(notice.fields)
                if not _IN_ALL.fullmatch(fields["M"]) and (self._heard or fields.get("V") != "NOTICE"):
                    self._session.client.send(notice)
                continue
            row = next(rows)
            kept[row] = False
            line = batch.lines[row].as_py()
            if self._heard and self._options.log_verbosity is LogVerbosity.VERBOSE:
                fields = {**dict(notice.fields), "M": f"{found[1]}{line}{found[3]}{found[4]}"}
                self._session.client.send(NoticeResponse(tuple(fields.items())))
            self._count += 1
            limit = self._options.reject_limit
            if limit and self._count > limit:
                raise self._too_many(limit, line, found[4])
        return kept

    def _too_many(self, limit: int, line: int, where: str) -> SluiceError:
        """`where` is the column's name, `": ` and its value, as in the notice."""
        text = f"skipped more than REJECT_LIMIT ({limit}) rows due to data type incompatibility"
        error = SluiceError(SqlState.INVALID_TEXT_REPRESENTATION, text)
        name = next(name for name in self._names if where.startswith(f'{name}": '))
        value = where.removeprefix(f'{name}": ')
        error.fields["W"] = f"COPY {self._relation}, line {line}, column {name}: {value}"
        return error

    def tell(self) -> None:
        """At the end: report the number of skipped rows."""
        count = self._count
        if not count or not self._heard or self._options.log_verbosity is LogVerbosity.SILENT:
            return
        rows = "1 row was" if count == 1 else f"{count} rows were"
        text = f"{rows} skipped due to data type incompatibility"
        self._session.client.send(NoticeResponse.of("NOTICE", SqlState.SUCCESSFUL_COMPLETION, text))
