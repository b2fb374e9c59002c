"""The vocabulary between planner and storage: queries and changes that storage executes.

Pure data, without Spark. A query is Spark SQL over *scans*: each scan stands for one lake table at one snapshot. The
SQL sees it as a relation called `scan.name` whose columns are `c<attnum>`, in lake form. The comparisons of a scan are
hints: each is a *necessary* condition for a row to matter, so files in which no row can meet them all are not read.
They filter nothing; the SQL still has all its conditions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from typing import Final, Literal, TypeAlias, get_args
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from catalog.model import Column, DataFile, Sidecar, Table, TableVersion

Value: TypeAlias = bool | int | float | Decimal | str | bytes | date | datetime | time | UUID

Operator = Literal["=", "<", "<=", ">", ">=", "is null", "is not null", "in"]
OPERATORS: Final[frozenset[str]] = frozenset(get_args(Operator))

# The columns that a scan with `needs_position` has beside those of the table.
FILE_COLUMN: Final = "_file"
POSITION_COLUMN: Final = "_position"
# The column that a scan with `needs_number` has beside those.
NUMBER_COLUMN: Final = "_number"


def column_name(attnum: int) -> str:
    """Return the name of the table's column `attnum` in a scan."""
    return f"c{attnum}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """`column attnum` `operator` `values`: a necessary condition on the rows of a scan.

    `values` holds one value for a comparison, none for a null test, any number for `in`. Values are never None: a
    comparison with NULL is not a condition (drop it, or the whole scan). A datetime is naive for `timestamp` and aware
    for `timestamptz`; numeric is a Decimal.
    """

    attnum: int
    operator: Operator
    values: tuple[Value, ...] = ()

    def __post_init__(self) -> None:
        if self.operator not in OPERATORS:
            raise ValueError(f"no such comparison: {self.operator!r}")
        expected = {"is null": 0, "is not null": 0, "in": len(self.values)}.get(self.operator, 1)
        if len(self.values) != expected or None in self.values:
            raise ValueError(f"{self.operator!r} cannot take {self.values!r}")


@dataclass(frozen=True, slots=True)
class KeyComparison:
    """A necessary condition, as `Comparison`, on the key at `place` (from 1) of the index with the OID `index`."""

    index: int
    place: int
    operator: Operator
    values: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Scan:
    """A read of a lake table. `attnums` are the columns needed, in any order; `predicate` is a conjunction.

    With `needs_position` the relation also has `_file` (STRING: the data file's path as the catalog has it) and
    `_position` (BIGINT: the row's number in that file, from 0), which together name a row. With `needs_number` it has
    `_number` (BIGINT: the row's number in the table, see `storage.parquet.row_numbers`). `keys` are like `predicate`,
    on expressions of indexes. `implied` are the partial indexes, by OID, that have every row that matters.
    `restricted`: policies hide rows of it, and EXPLAIN must not reveal them.
    """

    name: str
    table_oid: int
    attnums: tuple[int, ...]
    predicate: tuple[Comparison, ...] = ()
    needs_position: bool = False
    keys: tuple[KeyComparison, ...] = ()
    implied: tuple[int, ...] = ()
    needs_number: bool = False
    restricted: bool = False


@dataclass(frozen=True, slots=True)
class BoundScan:
    """A scan of the table at one snapshot, with the sidecars that it may use, by index and data file.

    `rows` are those of a table outside of the lake, `c<attnum>` in lake form.
    """

    scan: Scan
    version: TableVersion
    sidecars: Mapping[tuple[int, int], Sidecar] = field(default_factory=dict)
    rows: pa.Table | None = None

    @property
    def row_count(self) -> int:
        """The number of rows that the scan has at most."""
        return self.version.row_count if self.rows is None else int(self.rows.num_rows)


@dataclass(frozen=True, slots=True)
class RunnableQuery:
    """Spark SQL (one query, no trailing semicolon) with everything that it refers to.

    `time_zone` is the session's TimeZone as Spark takes it: a region ("Europe/Berlin") or an offset ("+02:00").
    `is_eager`: an error of a value may come from what PostgreSQL would not compute; it is 0A000.
    """

    sql: str
    scans: tuple[BoundScan, ...] = ()
    time_zone: str = "UTC"
    is_eager: bool = False


@dataclass(frozen=True, slots=True)
class Unlisted:
    """The value of column `attnum` is none of the `values`, and not NULL."""

    attnum: int
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Contains:
    """The text in column `attnum` begins or ends with `text`, or has it anywhere; if `negated`, it has not. It is not
    NULL."""

    attnum: int
    text: str
    at: Literal["start", "end", "anywhere"]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Either:
    """At least one of the alternatives, each a conjunction, is met."""

    alternatives: tuple[tuple[Condition, ...], ...]


# Conditions that a row meets or not: where PostgreSQL's is unknown, it is not met.
ColumnCondition: TypeAlias = Comparison | Unlisted | Contains
Condition: TypeAlias = ColumnCondition | Either


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A data file to be read; of its rows only those at `positions` (ascending), if given."""

    file: DataFile
    positions: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True)
class RunnableStored:
    """Columns of a table at one snapshot as its files store them: `limit` rows (None: all) after `offset` others.

    The rows are those of the `parts`, in their order, that meet all `conditions`. `rows`, if given, are read in place
    of the parts: rows of the table in lake form, with the columns that are read at least. With `counts`, the result is
    one row in place of them: their number, so many times.
    """

    table: Table
    columns: tuple[Column, ...]
    parts: tuple[StoredPart, ...] = ()
    conditions: tuple[Condition, ...] = ()
    offset: int = 0
    limit: int | None = None
    rows: pa.Table | None = None
    counts: int = 0


@dataclass(frozen=True, slots=True)
class RunnableInsert:
    """Append the rows of `source` to `table`.

    The query's first columns are the table's, in the order of `table.columns` and in lake form; names do not matter.
    Further columns are those of RETURNING. Up to `hot_rows` rows become hot rows, without a file. Files with rows for
    RETURNING become about `file_bytes` large, if given. Rows that are not `divided` into files of partitions stay in
    their order.
    """

    source: RunnableQuery
    table: Table
    hot_rows: int = 0
    file_bytes: int | None = None
    divided: bool = True


@dataclass(frozen=True, slots=True)
class RunnableDelete:
    """Delete the rows that `source` names.

    The query's first two columns are `_file` and `_position` of a scan of `version`; further columns are those of
    RETURNING. A row named twice is deleted, counted and returned once. With `hot_rows`, few positions become the
    catalog's, without a file.
    """

    source: RunnableQuery
    version: TableVersion
    hot_rows: int = 0


@dataclass(frozen=True, slots=True)
class RunnableUpdate:
    """Replace the rows that `source` names.

    The query's columns: `_file`, `_position`, then the table's columns (new values, all of them, in the order of
    `version.table.columns`, in lake form), then those of RETURNING. The query is evaluated once. Of several rows for
    the same old row one is taken, as in PostgreSQL for an UPDATE … FROM that joins it more than once. For at most
    `sources_max` rows the result says which old row each new one replaces. Up to `hot_rows` new rows become hot rows.
    """

    source: RunnableQuery
    version: TableVersion
    sources_max: int = 0
    hot_rows: int = 0
