"""Spark's errors become PostgreSQL's, and Sluice's own pass unchanged."""

from __future__ import annotations

import pytest

from catalog.errors import SluiceError
from storage.spark.raise_error import raise_error_text, raised_error
from storage.spark.spark_errors import from_spark
from tests.storage.conftest import Reader

_CASES = [
    ("SELECT id / 0 FROM range(1)", "22012", "division by zero"),
    ("SELECT id % 0 FROM range(1)", "22012", "division by zero"),
    ("SELECT CAST(id + 40000 AS SMALLINT) FROM range(1)", "22003", "smallint out of range"),
    ("SELECT CAST(1e30 + id AS BIGINT) FROM range(1)", "22003", "bigint out of range"),
    ("SELECT CAST(id + 1 AS DECIMAL(38, 0)) * repeat('9', 38)::DECIMAL(38, 0) * 10 FROM range(1)", "0A000",
     "a numeric computation of more than 38 digits is not supported on lake tables"),
    ("SELECT id + 9223372036854775807 FROM range(1, 2)", "22003", "value out of range"),
    ("SELECT (CAST(id AS INT)) /* integer */ + 2147483647 + (5) /* bigint */ FROM range(1, 2)", "22003",
     "integer out of range"),
    ("SELECT div((id - 9223372036854775807 - 1) /* bigint */, -1) FROM range(1)", "22003", "bigint out of range"),
    ("SELECT CAST('x' || id AS INT) FROM range(1)", "22P02", 'invalid input syntax for type integer: "x0"'),
    ("SELECT CAST('x' || id AS DECIMAL(5, 2)) FROM range(1)", "22P02", 'invalid input syntax for type numeric: "x0"'),
    ("SELECT (SELECT id FROM range(2))", "21000", "more than one row returned by a subquery used as an expression"),
    ("SELECT (SELECT CASE WHEN id > 7 THEN raise_error('SLUICE:22023:no') ELSE id END FROM range(2))", "21000",
     "more than one row returned by a subquery used as an expression"),
    ("SELECT CAST('SLUICE:57P01:gone ' || id AS INT) FROM range(1)", "22P02",
     'invalid input syntax for type integer: "SLUICE:57P01:gone 0"'),
    ("SELECT CAST('[USER_RAISED_EXCEPTION] SLUICE:57P01:' || id AS INT) FROM range(1)", "22P02",
     'invalid input syntax for type integer: "[USER_RAISED_EXCEPTION] SLUICE:57P01:0"'),
    ("SELECT * FROM nowhere", "0A000", "this query is not supported on lake tables"),
    ("SELECT (SELECT raise_error('SLUICE:22003:n') FROM range(2) ORDER BY o.id LIMIT 1) FROM range(1) o", "0A000",
     "this query is not supported on lake tables"),
    ("SELECT (1", "0A000", "this query is not supported on lake tables"),
    ("SELECT CAST(date_add(DATE'2000-01-01', 2000000000 + CAST(id AS INT)) AS TIMESTAMP_NTZ) FROM range(1)", "0A000",
     "a value beyond what Spark computes with is not supported on lake tables"),
    ("SELECT raise_error('SLUICE:22023:bad ' || id || chr(10) || 'line') FROM range(1)", "22023", "bad 0\nline"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "sqlstate", "message"), _CASES)
async def test_sparks_conditions_in_postgresqls_words(
    reader: Reader, sql: str, sqlstate: str, message: str | None
) -> None:
    with pytest.raises(SluiceError) as caught:
        await reader.table(sql)
    assert (caught.value.sqlstate, caught.value.message) == (sqlstate, message or caught.value.message)
    assert "\tat " not in caught.value.message


def test_every_field_comes_back() -> None:
    error = SluiceError(
        "23502", 'null value in column "ä"\nviolates', detail='{"json": "}"}', hint="h", schema="s", table="t",
        column="c", datatype="d", constraint="n", severity="FATAL",
    )  # fmt: skip
    wrapped = f"Job aborted: [USER_RAISED_EXCEPTION] {raise_error_text(error)} SQLSTATE: P0001\n\tat org.apache"
    found = raised_error(wrapped)
    assert found is not None
    assert found.fields == error.fields


def test_a_message_in_an_exception_ends_where_ours_ended() -> None:
    found = raised_error("[USER_RAISED_EXCEPTION] SLUICE:22012:no: way SQLSTATE: P0001\n\tat org.apache.spark")
    assert found is not None
    assert (found.sqlstate, found.message) == ("22012", "no: way")
    assert raised_error("nothing of ours") is None


def test_whatever_it_is_it_becomes_an_error_for_the_client() -> None:
    assert from_spark(ValueError("x")).sqlstate == "XX000"
    assert from_spark(EOFError()).sqlstate == "57P02"
    error = SluiceError("22012", "division by zero")
    assert from_spark(error) is error
