"""Spark's errors as PostgreSQL's: a table from Spark's error condition to SQLSTATE and message.

The planner's own refusals at run time travel in `raise_error` texts, `SLUICE:<sqlstate>:<message>`. What the table
does not know is XX000 where the query ran, and 0A000 where Spark could not analyse or plan it: the planner made a
query of a shape that Spark does not take, which is a construct that is not supported.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from catalog.errors import SluiceError, SqlState, unsupported
from storage.raised import raised_error

# raise_error's text, wherever Spark puts it: up to the end of the line or the SQLSTATE that Spark adds.
_OWN: Final = re.compile(
    r"\[USER_RAISED_EXCEPTION\] SLUICE:([0-9A-Z]{5}):(.*?)(?: SQLSTATE: [0-9A-Z]{5}|\r?\n\s*(?:==|at )|\Z)", re.DOTALL
)
_WHOLE: Final = "SLUICE:{"
_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]")

_Maker = Callable[[str], SluiceError]


def _fixed(sqlstate: str, message: str) -> _Maker:
    return lambda _: SluiceError(sqlstate, message)


def _overflow(text: str) -> SluiceError:
    """Spark does not say which type it was, but for smallint, whose operands it shows: `32767S + 1S`."""
    name = "smallint" if re.search(r"-?\d+S [-+*] -?\d+S caused overflow", text) else "integer"
    return SluiceError(SqlState.NUMERIC_VALUE_OUT_OF_RANGE, f"{name} out of range")


def _cast_overflow(text: str) -> SluiceError:
    names = {"TINYINT": "smallint", "SMALLINT": "smallint", "INT": "integer", "BIGINT": "bigint"}
    found = re.search(r'to "(\w+)"', text)
    name = names.get(found.group(1).upper() if found else "", "integer")
    return SluiceError(SqlState.NUMERIC_VALUE_OUT_OF_RANGE, f"{name} out of range")


_DIGITS: Final = "a numeric computation of more than 38 digits"

# By condition; a condition's subclass (`A.B`) is looked up before the condition itself.
_TABLE: Final[dict[str, _Maker]] = {
    "DIVIDE_BY_ZERO": _fixed(SqlState.DIVISION_BY_ZERO, "division by zero"),
    "REMAINDER_BY_ZERO": _fixed(SqlState.DIVISION_BY_ZERO, "division by zero"),
    "INTERVAL_DIVIDED_BY_ZERO": _fixed(SqlState.DIVISION_BY_ZERO, "division by zero"),
    "ARITHMETIC_OVERFLOW": _overflow,
    "BINARY_ARITHMETIC_OVERFLOW": _overflow,
    "CAST_OVERFLOW": _cast_overflow,
    "CAST_OVERFLOW_IN_TABLE_INSERT": _cast_overflow,
    "NUMERIC_VALUE_OUT_OF_RANGE": lambda _: unsupported(_DIGITS),
    "NUMERIC_OUT_OF_SUPPORTED_RANGE": lambda _: unsupported(_DIGITS),
    "DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION": lambda _: unsupported(_DIGITS),
    "SCALAR_SUBQUERY_TOO_MANY_ROWS": _fixed(
        SqlState.CARDINALITY_VIOLATION, "more than one row returned by a subquery used as an expression"
    ),
    "CAST_INVALID_INPUT": lambda text: SluiceError("22007", _invalid_input(text)),
    "DATETIME_OVERFLOW": _fixed(SqlState.DATETIME_FIELD_OVERFLOW, "timestamp out of range"),
    "DATETIME_FIELD_OUT_OF_BOUNDS": _fixed(SqlState.DATETIME_FIELD_OVERFLOW, "date field value out of range"),
    "INTERVAL_ARITHMETIC_OVERFLOW": _fixed(SqlState.DATETIME_FIELD_OVERFLOW, "interval out of range"),
    "RECURSION_LEVEL_LIMIT_EXCEEDED": lambda _: unsupported("a recursion this deep"),
    "RECURSION_ROW_LIMIT_EXCEEDED": lambda _: unsupported("a recursion of this many rows"),
}


def _invalid_input(text: str) -> str:
    """CAST_INVALID_INPUT comes from date texts of the right shape only: the others are checked beforehand."""
    found = re.search(r"value '([^']*)'", text)
    return f'date/time field value out of range: "{found.group(1)}"' if found else "date/time field value out of range"


def translate(error: BaseException) -> SluiceError:
    """The error that a client sees for an exception that PySpark raised (or for one that is PostgreSQL's already)."""
    if isinstance(error, SluiceError):
        return error
    text = _text(error)
    whole = raised_error(text) if _WHOLE in text else None
    if whole is not None:
        return whole
    own = _OWN.search(text)
    if own is not None:
        sqlstate, message = own.group(1), own.group(2).rstrip()
        return SluiceError(sqlstate, message)
    condition = _condition(error, text)
    for name in (condition, condition.split(".", maxsplit=1)[0]) if condition else ():
        make = _TABLE.get(name)
        if make is not None:
            return make(text)
    first = text.strip().splitlines()[0] if text.strip() else type(error).__name__
    if type(error).__name__ in ("AnalysisException", "ParseException"):
        return SluiceError(
            SqlState.FEATURE_NOT_SUPPORTED, "this query is not supported on lake tables", detail=first[:500]
        )
    return SluiceError(SqlState.INTERNAL_ERROR, f"the query failed in Spark: {first[:500]}")


def _text(error: BaseException) -> str:
    """Everything the exception says, its Java causes included: raise_error's text may be in a failed job's cause."""
    parts = [str(error)]
    java: Any = getattr(error, "java_exception", None)
    depth = 0
    while java is not None and depth < 10:
        parts.append(str(java.getMessage()))
        java = java.getCause()
        depth += 1
    return "\n".join(parts)


def _condition(error: BaseException, text: str) -> str | None:
    """Spark's error condition: from PySpark's exception, else as the bracketed word in its text."""
    read = getattr(error, "getCondition", None)
    if callable(read):
        try:
            found = read()
        except Exception:  # noqa: BLE001 - PySpark cannot always reach the JVM any more; the text says it as well
            found = None
        if found:
            return str(found)
    match = _CONDITION.search(text)
    return match.group(1) if match else None
