"""What a statement has done to the rows of a shadow."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from catalog.errors import SluiceError, SqlState, unsupported
from gateway.backend import catalog_calls
from gateway.backend.arrays import number_array
from gateway.backend.own_message import LOCKED, of_shadow, shadow_view
from gateway.backend.own_statement import Statement
from gateway.execution.changes.shadow_execution import made, rows_aside, rows_of
from gateway.execution.filling.sought_keys import KEYS_MAX
from gateway.execution.reading.postgres_query import SMALL_ROWS
from gateway.session.visibility import versions
from gateway.transaction.isolation_level import Isolation
from planner.plans.row_filter import WantedKeys

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from catalog.model import TableVersion
    from gateway.backend.connection import Result
    from gateway.execution.shadow.loaded_rows import Loaded
    from gateway.session.session_context import SessionContext
    from storage.spark.write import WriteResult

_EXISTING: Final = (
    "SELECT oid::pg_catalog.int8 FROM pg_catalog.pg_class WHERE oid OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.oid[])"
)

_REWRITING: Final = frozenset({"alter", "execute"})
_NO_MARK: Final = "-1"


@dataclass(frozen=True, slots=True)
class Taken:
    """A statement's effect on a table's rows: those that it made, those that it left, and which of these it has
    locked. Unless `is_changed`, only the locked ones are given; unless it `replaces` rows, those that are left are not
    given. `truncated`: it leaves none but those that it made, whatever was committed meanwhile. `updates_one`: all that
    it has done is to update one row, once.
    """

    version: TableVersion
    fresh: pa.Table
    kept: pa.Table
    locked: pa.Table
    is_changed: bool = True
    replaces: bool = True
    truncated: bool = False
    loaded: Loaded | None = None  # the rows that were copied, if not all, or in an order of their own
    updates_one: bool = False
    written: WriteResult | None = None  # the rows that it made, instead of `fresh`


def mark_of(oid: int) -> Statement:
    """The question for the mark of the rows that have been copied into a shadow; NULL if there are none."""
    return Statement(of_shadow(oid, f"SELECT pg_catalog.min(xmin::pg_catalog.text) FROM {shadow_view(oid)}"))


def conditions(mark: str | None, appended: bool) -> Sequence[str]:
    """Conditions for the rows that a statement made, that it left, and of these that it locked; of those it left, none
    if it has only `appended`."""
    mark = mark or _NO_MARK
    there = f"xmin::pg_catalog.text OPERATOR(pg_catalog.=) '{mark}'"
    return made(mark), "false" if appended else there, f"{there} AND {LOCKED}"


def missing_key(
    error: SluiceError, taken: Sequence[Taken], copied: Mapping[int, WantedKeys]
) -> tuple[int, WantedKeys] | None:
    """After a violation of a key by new rows: the table, and the keys of rows to copy, with those that are `copied`.
    PostgreSQL then finds the violation where it happens. None if that brings no others, or the rows are many.
    """
    named = [error.fields.get(code) for code in "stn"]
    for each in taken:
        table = each.version.table
        key = next((key for key in table.keys if [table.schema, table.name, key.name] == named), None)
        known = copied.get(table.oid)
        if (
            key is None
            or each.written is not None
            or each.fresh.num_rows > KEYS_MAX
            or (known is not None and known.attnums != key.attnums)
        ):
            continue
        columns = [each.fresh[table.column(attnum).name].to_pylist() for attnum in key.attnums]
        before = [] if known is None else known.values
        values = dict.fromkeys([*before, *(row for row in zip(*columns, strict=True) if None not in row)])
        return (table.oid, WantedKeys(key.attnums, list(values))) if len(values) > len(before) else None
    return None


def followed(replaced: Mapping[str, npt.NDArray[np.int64]]) -> pa.Table:
    """The only row that was replaced, as `Written.followed`."""
    [(path, positions)] = replaced.items()
    files = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array([path], pa.string()))
    return pa.table({"file": files, "position": pa.array(positions)})


async def locked_only(version: TableVersion, answer: Result, loaded: Loaded | None) -> Taken:
    """The rows of an unchanged table that the statement has locked."""
    nothing = rows_of(version.table, [])
    locked = await rows_aside(version.table, answer.bodies)
    return Taken(version, nothing, nothing, locked, is_changed=False, loaded=loaded)


async def written_anew(session: SessionContext, words: Collection[str]) -> frozenset[int]:
    """The tables whose rows PostgreSQL has written anew, as for ALTER … TYPE, maybe of the same type."""
    if _REWRITING.isdisjoint(words):
        return frozenset()
    [anew] = await session.backend.run(catalog_calls.tables_to_write_anew())
    return frozenset(int(oid or 0) for (oid,) in anew.rows)


def altered_of(
    changed: Iterable[int],
    seen: Mapping[int, TableVersion],
    known: Mapping[int, TableVersion],
    anew: Collection[int],
) -> frozenset[int]:
    """The `changed` tables whose schema is not that in which rows of the lake were `seen`, or written `anew`."""
    there = (oid for oid in changed if oid in seen and seen[oid].row_count)
    return frozenset(oid for oid in there if oid in anew or seen[oid].table != known[oid].table)


def too_large() -> SluiceError:
    """The refusal of a change of more rows than may be copied."""
    hint = f"PostgreSQL carries it out where the table has no more than {SMALL_ROWS} rows."
    return unsupported("a function that changes rows of so large a lake table", hint=hint)


async def existing_of(session: SessionContext, oids: Iterable[int]) -> set[int]:
    """Those of these tables that the transaction still sees."""
    [left] = await session.backend.run(Statement(_EXISTING, (number_array(oids),)))
    return {int(oid or 0) for (oid,) in left.rows}


async def check_newest(session: SessionContext, seen: Sequence[TableVersion]) -> None:
    """40001 if others have committed rows of these tables since: all of their rows are to be written anew."""
    if not seen or session.transaction.isolation is Isolation.READ_COMMITTED:
        return
    with session.transaction.reading_newest():
        newest = await versions(session, [each.table.oid for each in seen])
    if any(newest[each.table.oid].files != each.files for each in seen):
        raise SluiceError(SqlState.SERIALIZATION_FAILURE, "could not serialize access due to concurrent update")
