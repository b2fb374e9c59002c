"""Copies rows of lake tables into their shadows, for functions to read and change."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from catalog.errors import unsupported
from gateway.backend import catalog_calls
from gateway.backend.arrays import number_array
from gateway.backend.own_statement import Statement
from gateway.execution.filling.filling_settings import set_while_filled
from gateway.execution.shadow.shadow import (
    MAY_COPY,
    copy_rows,
    copying_few,
    put_rows,
    qualified,
    resume,
    runs_checks,
    suspending,
)
from gateway.execution.shadow.trigger_bypass import copying_role, role_again
from gateway.session.cancel_listener import check
from gateway.session.visibility import rules
from storage.parquet.table_rows import live_rows_aside

if TYPE_CHECKING:
    from catalog.model import Table, TableVersion
    from gateway.backend.connection import Result
    from gateway.execution.shadow.loaded_rows import Loaded
    from gateway.session.session_context import SessionContext
    from planner.plans.row_filter import WantedKeys

# A table with no more rows is copied whole, whatever could be left out.
_FEW_ROWS: Final = 100
_MAY_COPY: Final = (
    f"SELECT {MAY_COPY.format('o')} FROM pg_catalog.unnest($1::pg_catalog.oid[]) WITH ORDINALITY AS u (o, n) ORDER BY n"
)


@dataclass(frozen=True, slots=True)
class Copying:
    """Rows are being copied, with triggers bypassed. `before`: what the transaction had done to shadows until then,
    unless that is known, and `role`, its replication role, which is to be set again. `few`: what copies the last rows,
    to be executed next.
    """

    before: Result | None
    role: bytes | None
    few: Sequence[Statement]


@dataclass(frozen=True, slots=True)
class Copies:
    """What is to be copied: of the `tables` that are used, the rows of the `filled` ones; of some, those `found`. The
    first row of a table with `opening` is copied before these statements, and all others after them.
    """

    tables: Sequence[Table]
    filled: Sequence[TableVersion]
    found: Mapping[int, Loaded]
    opening: Mapping[int, Sequence[Statement]]

    async def begin(
        self, session: SessionContext, begin: Sequence[Statement], touched: Statement | None = None
    ) -> Copying:
        """Execute `begin`, which ends with a `hold_schema` of each table, and copy the rows. `touched` asks what the
        transaction has done to shadows."""
        tables, filled = self.tables, self.filled
        oids = number_array(version.table.oid for version in filled)
        suspended = [suspending(version.table) for version in filled]
        told = [] if touched is None else [touched]
        asked = *told, copying_role(tables), *suspended, Statement(_MAY_COPY, (oids,))
        answers = await session.backend.run(*begin, *asked)
        session.transaction.enlistment.confirm_all(tables, answers[len(begin) - len(tables) :])
        role, *suspensions, may = answers[len(begin) + len(told) :]
        few: list[Statement] = []
        for version, (allowed,) in zip(filled, may.rows, strict=True):
            few += await self._copy(session, version, may_copy=allowed == b"t")
        if any(value is not None for answer in suspensions for (value,) in answer.rows):
            await session.backend.run(*few)
            await resume(session, suspensions)
            few.clear()
        return Copying(answers[len(begin)] if told else None, role.rows[0][0], few)

    async def _copy(self, session: SessionContext, version: TableVersion, *, may_copy: bool) -> list[Statement]:
        """Copy rows of a table, as the client if it `may_copy`, else as the table's owner; return what copies the last
        few."""
        table, found = version.table, self.found.get(version.table.oid)
        generated = (await rules(session, table)).generated
        columns = [column for column in table.columns if column.attnum not in generated]
        names = [column.name for column in columns]
        if not names and version.row_count:
            raise unsupported("a function that reads rows without columns")
        few: list[Statement] = []
        opening = self.opening.get(table.oid, ())
        async for batch in _batches(session, version, found, first_alone=bool(opening)):
            check(session)
            session.gateway.store.undone_rows.left(table.oid, batch.num_rows)
            rows = batch.select(names)
            if not may_copy or runs_checks(columns):
                await put_rows(session, table, columns, rows)
            elif not few and (statement := copying_few(qualified(table), columns, rows)) is not None:
                few.append(statement)
            else:
                await copy_rows(session, qualified(table), columns, rows)
            if opening:
                await session.backend.run(*few, *opening)
                few.clear()
                opening = ()
        return few


def copy_whole(
    versions: Mapping[int, TableVersion],
    by_keys: dict[int, WantedKeys],
    sought: Collection[int],
    *,
    others_wait: bool,
) -> frozenset[int]:
    """The tables of few rows; of none, where `others_wait` for copies until the transaction ends. To leave some out is
    not worth it: the statement would be executed once more. So such a table that others reference is not copied
    `by_keys` either, unless its keys were `sought`.
    """
    most = 0 if others_wait else _FEW_ROWS
    few = frozenset(oid for oid, version in versions.items() if version.row_count <= most)
    for oid in (few & _parents(versions) & by_keys.keys()).difference(sought):
        del by_keys[oid]
    return few


def has_parents(versions: Mapping[int, TableVersion], lacking: Collection[int]) -> bool:
    """Whether PostgreSQL can check foreign keys: all referenced tables are copied, none of them is `lacking` rows."""
    return _parents(versions) <= versions.keys() - lacking


def _parents(versions: Mapping[int, TableVersion]) -> frozenset[int]:
    return frozenset(key.parent for version in versions.values() for key in version.table.foreign_keys)


async def empty_shadows(
    session: SessionContext, oids: Iterable[int], known: Iterable[TableVersion], settings: Sequence[bytes | None]
) -> None:
    """Remove the rows of these shadows, with triggers of the `known` tables bypassed, and restore the settings: the
    statement's effects last."""
    idle, workers = settings
    unfilled = catalog_calls.set_filled(filled=False), set_while_filled(idle, workers, "")
    past = copying_role(version.table for version in known)
    emptying = (catalog_calls.empty_shadow(oid, session.backend.process_id) for oid in oids)
    _, _, role, *_ = await session.backend.run(*unfilled, past, *chain.from_iterable(emptying))
    await session.backend.run(role_again(role.rows[0][0]))


async def _batches(
    session: SessionContext, version: TableVersion, found: Loaded | None, *, first_alone: bool
) -> AsyncIterator[pa.RecordBatch]:
    """The rows to copy; with `first_alone`, the first one of those found is a batch by itself."""
    if found is not None and first_alone:
        rows = found.rows.combine_chunks()
        for part in (rows.slice(0, 1), rows.slice(1)):
            for batch in part.to_batches():
                yield batch
        return
    if found is not None:
        for batch in found.rows.combine_chunks().to_batches():
            yield batch
        return
    async for batch in live_rows_aside(session.gateway.data_path, version):
        yield batch
