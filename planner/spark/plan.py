"""Records of the planner: its input (`Context`) and its results (a `SparkQuery`, a plan of a change).

Everything here is a frozen value. A plan is valid as long as the schema it was made against. The executor of a plan
chooses the versions of the tables, and so their files and rows.

Execution of a plan: each `Scan` becomes a view whose name stands in the SQL. Its columns are `c<attnum>`, in lake form
(`catalog.datatypes.lake_form`), and, with `needs_position`, also `_file STRING` and `_position BIGINT`. The Spark
session must have the settings `SPARK_SETTINGS`, and `spark.sql.session.timeZone` set to `SessionValues.time_zone`.

Types of a result's columns (in the order of `SparkQuery.columns`, after any columns that a plan of a change puts
first), by PostgreSQL type:

- int2, int4, int8: SMALLINT, INT, BIGINT; float4, float8: FLOAT, DOUBLE; bool: BOOLEAN; oid: BIGINT
- numeric: DECIMAL(p, s) if every value has the display scale s, or STRING, PostgreSQL's own text of each value
- text, varchar, json, jsonb, uuid: STRING; bpchar: STRING, padded with blanks; bytea: BINARY
- date: DATE (±infinity: 2147483647 and -2147483647 days); time: TIME(6)
- timestamp: TIMESTAMP_NTZ; timestamptz: TIMESTAMP_LTZ (±infinity: ±(2^63 - 1) microseconds)
- interval: STRUCT<months: INT, days: INT, microseconds: BIGINT>; arrays: ARRAY of these
- unknown (a bare NULL): STRING; void and record are refused
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError
from catalog.model import Table
from storage.plan import Comparison, KeyComparison, Operator, Scan

if TYPE_CHECKING:
    from planner.tree.builtins import Builtins

__all__ = [
    "SPARK_SETTINGS",
    "Comparison",
    "Context",
    "DeletePlan",
    "InsertPlan",
    "KeyComparison",
    "Operator",
    "OutputColumn",
    "Parameter",
    "ReturningPlan",
    "Scan",
    "SequenceColumn",
    "SessionValues",
    "SparkQuery",
    "UpdatePlan",
]  # fmt: skip

# The settings of a Spark session on which the meaning of the planner's SQL depends.
SPARK_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.groupByOrdinal": "false",
    "spark.sql.orderByOrdinal": "false",
}


# The place of a row: the path of its data file, and its position in that; None for no row.
Place = tuple[str, int] | None


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of the result, as PostgreSQL's Describe names and types it."""

    name: str
    type_oid: int
    typmod: int


_SCAN_NAME: Final = re.compile(r"'[^'\\]*+(?:\\.[^'\\]*+)*+'|`([^`]*+)`", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SparkQuery:
    """A SELECT in Spark's SQL over `scans`, whose names stand in `sql` between backquotes.

    `is_eager`: Spark computes subqueries and aggregates of branches that may not be taken (CASE, coalesce, OR), so an
    error of a value may be none in PostgreSQL.
    """

    sql: str
    scans: tuple[Scan, ...]
    columns: tuple[OutputColumn, ...]
    is_eager: bool = False

    def named(self, names: Mapping[str, str]) -> str:
        """Return the SQL with each scan's name replaced by that in `names`; string literals stay as they are."""
        known = {scan.name for scan in self.scans}

        def replacement(found: re.Match[str]) -> str:
            name = found.group(1)
            return f"`{names[name]}`" if name in known else found.group(0)

        return _SCAN_NAME.sub(replacement, self.sql)


@dataclass(frozen=True, slots=True)
class SequenceColumn:
    """A column with the next value of a sequence; the query returns NULL there, and storage numbers the rows."""

    attnum: int
    sequence_oid: int


@dataclass(frozen=True, slots=True)
class ReturningPlan:
    """RETURNING of an INSERT: a query over one scan, named `rows`, of the rows as they were written.

    The scan's `table_oid` is the target's; its view holds the new rows, columns `c<attnum>`, sequences numbered.
    """

    query: SparkQuery


@dataclass(frozen=True, slots=True)
class InsertPlan:
    """INSERT: `query` yields all live columns of the target, named `c<attnum>` in the order of attnum, in lake form.

    Assignment casts, defaults and generated columns are applied; storage enforces NOT NULL and CHECK (`plan_check`).
    Columns named in `sequences` are NULL. Columns computed from a sequence are refused. If policies have conditions on
    new rows, one further column tells which of `violations` is the row's (`planner.translate.row_security`).
    """

    table_oid: int
    query: SparkQuery
    sequences: tuple[SequenceColumn, ...]
    returning: ReturningPlan | None
    violations: tuple[SluiceError, ...] = ()


@dataclass(frozen=True, slots=True)
class UpdatePlan:
    """UPDATE: `query` yields one row for each target row.

    Its columns: `_file`, `_position`, then all live columns' new values, named `c<attnum>` in the order of attnum, in
    lake form, then RETURNING's expressions `r1`, `r2`, …. As for an INSERT, a column before RETURNING's may tell which
    of `violations` is the row's. `query.columns` describes the expressions of RETURNING only. `assigned` are the
    columns that SET names (and the generated ones). `target` names the scan of the target table, the one that has
    positions.
    """

    table_oid: int
    query: SparkQuery
    target: str
    assigned: tuple[int, ...]
    violations: tuple[SluiceError, ...] = ()


@dataclass(frozen=True, slots=True)
class DeletePlan:
    """DELETE: `query` yields one row for each row to delete: `_file`, `_position`, then RETURNING's `r1`, `r2`, ….

    `query.columns` describes the expressions of RETURNING only; `target` names the scan of the target table.
    """

    table_oid: int
    query: SparkQuery
    target: str


@dataclass(frozen=True, slots=True)
class SessionValues:
    """The results of stable functions. `now` is the start of the transaction, `statement_now` of the statement.

    Both are microseconds since 1970 UTC. Style settings other than PostgreSQL's defaults refuse what they affect.
    """

    now: int
    statement_now: int
    time_zone: str = "UTC"
    user: str = "postgres"
    session_user: str = "postgres"
    database: str = "postgres"
    schema: str | None = "public"
    date_style: str = "ISO, MDY"
    interval_style: str = "postgres"
    extra_float_digits: int = 1
    bytea_output: str = "hex"
    # The client's own settings that the statement reads, by their names in lower case; None for a missing one.
    settings: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter's value: PostgreSQL's canonical text (DateStyle ISO, IntervalStyle postgres, bytea hex) or NULL."""

    type_oid: int
    text: str | None


@dataclass(frozen=True, slots=True)
class Context:
    """Everything that a plan depends on besides the tree.

    `tables` are the lake's tables by their shadow's OID. `generated` gives, by table OID and attnum, the node text
    (pg_attrdef.adbin) of each GENERATED ALWAYS AS … STORED column; only changes need it. `locked` gives, by the
    identity of a locking subquery's node, the locked rows: the place of each in the tables that it joins. `current` is
    the row of WHERE CURRENT OF. `domain_names` are the session's spellings of domains that have rules. `handed` are
    tables outside of the lake whose rows Spark is given, by OID.
    """

    builtins: Builtins
    tables: Mapping[int, Table]
    session: SessionValues
    parameters: tuple[Parameter, ...] = ()
    generated: Mapping[int, Mapping[int, str]] = field(default_factory=dict)
    locked: Mapping[int, Sequence[Sequence[Place]]] = field(default_factory=dict)
    current: Place = None
    domain_names: Mapping[int, str] = field(default_factory=dict)
    handed: Mapping[int, Table] = field(default_factory=dict)
