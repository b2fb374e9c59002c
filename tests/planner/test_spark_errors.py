"""Spark's errors as PostgreSQL's."""

from __future__ import annotations

import pytest

from catalog.errors import SluiceError
from planner.spark_errors import translate


class Raised(Exception):  # noqa: N818 - stands for PySpark's exceptions, with what they offer
    def __init__(self, text: str, condition: str | None = None) -> None:
        super().__init__(text)
        self._condition = condition

    def getCondition(self) -> str | None:  # noqa: N802
        return self._condition


class AnalysisException(Raised):
    pass


# Texts as Spark 4.3 writes them.
ERRORS = [
    ("[DIVIDE_BY_ZERO] Division by zero. Use `try_divide`", "22012", "division by zero"),
    ("[REMAINDER_BY_ZERO] Remainder by zero. Use `try_mod`", "22012", "division by zero"),
    ("[ARITHMETIC_OVERFLOW] overflow. Use 'try_add'", "22003", "integer out of range"),
    ("[BINARY_ARITHMETIC_OVERFLOW] 32767S + 1S caused overflow.", "22003", "smallint out of range"),
    ('[CAST_OVERFLOW] The value 9L of the type "BIGINT" cannot be cast to "INT" due to an overflow.', "22003",
     "integer out of range"),
    ("[NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION]  9 cannot be represented as Decimal(38, 0).", "0A000",
     "a numeric computation of more than 38 digits is not supported on lake tables"),
    ("org.apache.spark.SparkException: Exception thrown in awaitResult: \n[SCALAR_SUBQUERY_TOO_MANY_ROWS] More than",
     "21000", "more than one row returned by a subquery used as an expression"),
    ("[USER_RAISED_EXCEPTION] SLUICE:22001:value too long for type character varying(3) SQLSTATE: P0001", "22001",
     "value too long for type character varying(3)"),
    ("Job aborted.\n[USER_RAISED_EXCEPTION] SLUICE:22003:numeric field overflow SQLSTATE: P0001\n\tat x.y", "22003",
     "numeric field overflow"),
    ("[CAST_INVALID_INPUT] The value '2023-02-30' of the type \"STRING\" cannot be cast to \"DATE\"", "22007",
     'date/time field value out of range: "2023-02-30"'),
    ("something else", "XX000", "the query failed in Spark: something else"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "sqlstate", "message"), ERRORS)
def test_by_text(text: str, sqlstate: str, message: str) -> None:
    found = translate(Raised(text))
    assert (found.sqlstate, found.message) == (sqlstate, message)


def test_by_condition() -> None:
    assert translate(Raised("anything", "DIVIDE_BY_ZERO")).sqlstate == "22012"


def test_a_query_that_spark_cannot_analyse_is_not_supported() -> None:
    found = translate(AnalysisException("[UNSUPPORTED_SUBQUERY] of RAISE_ERROR('SLUICE:22001:x')"))
    assert found.sqlstate == "0A000"


def test_our_own_pass_through() -> None:
    error = SluiceError("42P01", "gone")
    assert translate(error) is error
