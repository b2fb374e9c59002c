"""NOT NULL and CHECK over rows that Spark computes: the query raises PostgreSQL's error for a violating row.

Pure. Rows that PostgreSQL's shadow has validated need none of this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from catalog.errors import SluiceError, SqlState
from catalog.model import Table
from planner.spark.plan import SparkQuery
from planner.translate.row_security import VIOLATED
from storage.plan import column_name
from storage.spark.raise_error import raise_error_text


def enforced(
    query: SparkQuery,
    table: Table,
    checks: Mapping[str, str],
    *,
    before: Iterable[str] = (),
    after: Iterable[str] = (),
    numbered: Collection[int] = (),
    violations: Sequence[SluiceError] = (),
) -> SparkQuery:
    """Return the query, raising 42501, 23502 and 23514 as it computes rows.

    Its columns must be named: those of `before`, the table's as `c<attnum>`, those of `after`. `checks` maps each
    CHECK's name to a Spark condition over `c<attnum>`; as in PostgreSQL, only false violates it. Columns `numbered` (by
    attnum) get their values from a sequence later. `violations` are those of the plan, which come first.
    """
    rules = [(f"{VIOLATED} = {number}", error) for number, error in enumerate(violations, 1)]
    rules += [
        (f"{column_name(column.attnum)} IS NULL", _not_null(table, column.name))
        for column in table.columns
        if not column.nullable and column.attnum not in numbered
    ]
    rules += [(f"NOT ({condition})", _check(table, name)) for name, condition in checks.items()]
    if not rules:
        return query
    first, *rest = [column_name(column.attnum) for column in table.columns]
    cases = " ".join(f"WHEN {condition} THEN raise_error({_literal(error)})" for condition, error in rules)
    names = [*before, f"CASE {cases} ELSE {first} END AS {first}", *rest, *after]
    return replace(query, sql=f"SELECT {', '.join(names)} FROM ({query.sql}) AS computed")


def broken_rows(query: SparkQuery, table: Table, checks: Mapping[str, str], error: SluiceError) -> SparkQuery | None:
    """Return the rows for which `enforced` has raised this error, as the table's columns; None for another error."""
    column, constraint = error.fields.get("c"), error.fields.get("n")
    condition: str | None = None
    if error.sqlstate == SqlState.NOT_NULL_VIOLATION:
        condition = next((f"{column_name(each.attnum)} IS NULL" for each in table.columns if each.name == column), None)
    elif error.sqlstate == SqlState.CHECK_VIOLATION and constraint is not None and constraint in checks:
        condition = f"NOT ({checks[constraint]})"
    if condition is None:
        return None
    names = ", ".join(column_name(each.attnum) for each in table.columns)
    return replace(query, sql=f"SELECT {names} FROM ({query.sql}) AS computed WHERE {condition} LIMIT 1")


def _not_null(table: Table, column: str) -> SluiceError:
    return SluiceError(
        SqlState.NOT_NULL_VIOLATION,
        f'null value in column "{column}" of relation "{table.name}" violates not-null constraint',
        schema=table.schema,
        table=table.name,
        column=column,
    )


def _check(table: Table, name: str) -> SluiceError:
    return SluiceError(
        SqlState.CHECK_VIOLATION,
        f'new row for relation "{table.name}" violates check constraint "{name}"',
        schema=table.schema,
        table=table.name,
        constraint=name,
    )


def _literal(error: SluiceError) -> str:
    text = raise_error_text(error).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"
