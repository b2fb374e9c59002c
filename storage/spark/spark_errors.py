"""Spark's exceptions as PostgreSQL errors.

Errors that Sluice's SQL raises (`storage.spark.raise_error`: NOT NULL, CHECK, assertions of the planner) come back with
exactly the fields that they were given. The table CONDITIONS maps Spark's own error conditions, to PostgreSQL's words
if it has them. A condition that is not in it keeps Spark's text without its advice, under Spark's SQLSTATE; most of
these are the SQL standard's (Spark documentation, "Error Conditions"). SQL of Sluice's that Spark cannot even analyse
is 0A000: Spark does not take its shape.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

from catalog.errors import SluiceError, SqlState, too_deep, unsupported
from storage.spark.raise_error import raised_error

_NOT_ANALYSED: Final = ("AnalysisException", "ParseException")
_CAUSES_MAX: Final = 20
_CONDITION_TEXT: Final = re.compile(r"\[([A-Z][A-Z0-9_.]++)\] ([^\n]*+)")
_SQLSTATE: Final = re.compile(r" SQLSTATE: ([0-9A-Z]{5})$")
_RAISED: Final = "USER_RAISED_EXCEPTION"
_OF_VALUES: Final = ("21", "22")
_SQLSTATE_LENGTH: Final = len(" SQLSTATE: 00000")
# Characters of a message in which Spark's advice is looked for; a longer one is mostly a value.
_ADVISED_MAX: Final = 65_536
_ADVICE: Final = re.compile(r"(?<=\.) (Use|Verify|Correct|If|To|Please) .*")
_STANDARD_SQLSTATE: Final = re.compile(r"[0-9][0-9A-Z]{4}")
_OUT_OF_MEMORY: Final = "53200"
_EXECUTOR_LOST: Final = "ExecutorLostFailure"
_NO_MEMORY: Final = (
    "java.lang.OutOfMemoryError",
    "Not enough memory to build and broadcast",
    "No enough memory for aggregation",
    "Not enough memory to grow pointer array",
)

_TYPE_NAMES: Final = {
    "INT": "integer", "BIGINT": "bigint", "SMALLINT": "smallint", "DOUBLE": "double precision", "FLOAT": "real",
    "BOOLEAN": "boolean", "DATE": "date", "TIMESTAMP_NTZ": "timestamp", "TIMESTAMP": "timestamp with time zone",
    "TIME": "time", "STRING": "text",
}  # fmt: skip

# Java's arithmetic and calendar end before PostgreSQL's do: beyond them, only PostgreSQL can tell.
_BEYOND_JAVA: Final = frozenset({"java.lang.ArithmeticException", "java.time.DateTimeException"})

# The name of the SQL text in question among Spark's parameters.
_FRAGMENT: Final = "sluice.fragment"
_TYPE_MARK: Final = re.compile(r"/\* (smallint|integer|bigint) \*/")
_STRING: Final = re.compile(r"'[^'\\]*+(?:\\.[^'\\]*+)*+'", re.DOTALL)
_PARENTHESIS: Final = re.compile(r"([()])")

_Parameters = Mapping[str, str]


def _type_name(parameters: _Parameters, key: str = "targetType") -> str:
    name = parameters.get(key, "").strip('"`')
    base = name.partition("(")[0]
    return "numeric" if base == "DECIMAL" else _TYPE_NAMES.get(base, base.lower())


def _invalid_syntax(parameters: _Parameters) -> str:
    return (
        f'invalid input syntax for type {_type_name(parameters)}: "{parameters.get("expression", "").strip(chr(39))}"'
    )


def _out_of_range(parameters: _Parameters) -> str:
    return f"{_type_name(parameters)} out of range"


def _arithmetic_overflow(parameters: _Parameters) -> str:
    """Return the error for an overflow. The planner has marked the first operand in its SQL.

    The mark stands in front of an operator, or in the parentheses of a function.
    """
    text = _STRING.sub("", parameters.get(_FRAGMENT, ""))
    for part in (text, text.partition("(")[2].rpartition(")")[0]):
        found = _TYPE_MARK.search(_outside_parentheses(part))
        if found:
            return f"{found[1]} out of range"
    return "value out of range"


def _outside_parentheses(text: str) -> str:
    parts, opened = list[str](), list[int]()
    for part in _PARENTHESIS.split(text):
        if part == ")" and opened:
            del parts[opened.pop() :]
            continue
        if part == "(":
            opened.append(len(parts))
        parts.append(part)
    return "".join(parts)


def _unreadable(parameters: _Parameters) -> str:
    return f'file "{_plain_path(parameters.get("path", "?"))}" of the lake cannot be read'


def _missing_file(parameters: _Parameters) -> str:
    return f'could not access file "{_plain_path(parameters.get("path", "?"))}": No such file or directory'


@dataclass(frozen=True, slots=True)
class Condition:
    """Spark's error condition (or the beginning of its name, up to a dot), and PostgreSQL's form of it."""

    name: str
    sqlstate: str
    message: str | Callable[[_Parameters], str]


# The planner's own SQL checks declared lengths of fewer digits.
_TOO_MANY_DIGITS: Final = unsupported("a numeric computation of more than 38 digits").message

CONDITIONS: Final = (
    Condition("DIVIDE_BY_ZERO", SqlState.DIVISION_BY_ZERO, "division by zero"),
    Condition("REMAINDER_BY_ZERO", SqlState.DIVISION_BY_ZERO, "division by zero"),
    Condition("INTERVAL_DIVIDED_BY_ZERO", SqlState.DIVISION_BY_ZERO, "division by zero"),
    Condition("ARITHMETIC_OVERFLOW", SqlState.NUMERIC_VALUE_OUT_OF_RANGE, _arithmetic_overflow),
    Condition("BINARY_ARITHMETIC_OVERFLOW", SqlState.NUMERIC_VALUE_OUT_OF_RANGE, "smallint out of range"),
    Condition("CAST_OVERFLOW", SqlState.NUMERIC_VALUE_OUT_OF_RANGE, _out_of_range),
    Condition("NUMERIC_VALUE_OUT_OF_RANGE", SqlState.FEATURE_NOT_SUPPORTED, _TOO_MANY_DIGITS),
    Condition("NUMERIC_OUT_OF_SUPPORTED_RANGE", SqlState.FEATURE_NOT_SUPPORTED, _TOO_MANY_DIGITS),
    Condition("DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION", SqlState.FEATURE_NOT_SUPPORTED, _TOO_MANY_DIGITS),
    Condition("CAST_INVALID_INPUT", SqlState.INVALID_TEXT_REPRESENTATION, _invalid_syntax),
    Condition("DATETIME_OVERFLOW", SqlState.DATETIME_FIELD_OVERFLOW, "timestamp out of range"),
    Condition("DATETIME_FIELD_OUT_OF_BOUNDS", SqlState.DATETIME_FIELD_OVERFLOW, "date/time field value out of range"),
    Condition("INTERVAL_ARITHMETIC_OVERFLOW", SqlState.DATETIME_FIELD_OVERFLOW, "interval out of range"),
    Condition(
        "SCALAR_SUBQUERY_TOO_MANY_ROWS",
        SqlState.CARDINALITY_VIOLATION,
        "more than one row returned by a subquery used as an expression",
    ),
    Condition("FAILED_READ_FILE.FILE_NOT_EXIST", SqlState.IO_ERROR, _missing_file),
    Condition("FAILED_READ_FILE", SqlState.DATA_CORRUPTED, _unreadable),
    Condition("CANNOT_READ_FILE_FOOTER", SqlState.DATA_CORRUPTED, _unreadable),
    Condition("PATH_NOT_FOUND", SqlState.IO_ERROR, _missing_file),
)
_BY_NAME: Final = {condition.name: condition for condition in CONDITIONS}
assert len(_BY_NAME) == len(CONDITIONS), "a condition is listed twice"


def from_spark(exception: BaseException) -> SluiceError:
    """Return the client's error for an exception of PySpark or Py4J. Never raises; the worst is XX000."""
    if isinstance(exception, SluiceError):
        return exception
    try:
        return _translate(exception)
    except Py4JNetworkError:
        return jvm_died()


def needless(error: SluiceError) -> SluiceError:
    """Return 0A000 in place of an error of a value: it may come from what PostgreSQL would not compute."""
    if not error.sqlstate.startswith(_OF_VALUES):
        return error
    refusal = unsupported("an error in a branch that may not be taken")
    refusal.fields["D"] = error.message
    return refusal


def jvm_died() -> SluiceError:
    """Return the error of a statement whose JVM is gone."""
    return SluiceError(
        SqlState.CRASH_SHUTDOWN,
        "terminating statement because the Spark process ended unexpectedly",
        hint="Spark is started again by the next statement.",
    )


def worker_lost() -> SluiceError:
    """Return the error of a statement that needed a process of a cluster's that is gone."""
    return SluiceError(
        SqlState.SYSTEM_ERROR,
        "the statement lost a worker of Spark's, and could not be continued",
        hint="The statement has changed nothing, and may be tried again.",
    )


@dataclass(frozen=True, slots=True)
class _Cause:
    """The relevant parts of one Java throwable."""

    type: str
    message: str
    condition: str | None = None
    sqlstate: str | None = None
    parameters: Mapping[str, str] | None = None


def _translate(exception: BaseException) -> SluiceError:
    if isinstance(exception, Py4JJavaError):
        causes = _causes(exception.java_exception)
    elif isinstance(exception, (Py4JNetworkError, EOFError, ConnectionError)):
        return jvm_died()
    elif isinstance(exception, Py4JError):
        causes = [_Cause("py4j", str(exception))]
    else:
        return SluiceError(SqlState.INTERNAL_ERROR, f"{type(exception).__name__}: {exception}")
    for cause in causes:
        raised = _raised(cause)
        if raised is not None:
            return raised
    for cause in causes:
        system = _system_failure(cause)
        if system is not None:
            return system
    return _not_analysed(causes[0]) or _of_conditions(causes)


def _raised(cause: _Cause) -> SluiceError | None:
    """Return the error that Sluice's SQL has raised itself. The text of any other error may contain such a one: in the
    SQL that Spark shows, or in a value of the client's.
    """
    if cause.condition is not None:
        # As a parameter the text is whole.
        return raised_error((cause.parameters or {}).get("errorMessage", "")) if cause.condition == _RAISED else None
    told = _CONDITION_TEXT.search(cause.message)
    return raised_error(cause.message) if told is not None and told[1] == _RAISED else None


def _not_analysed(cause: _Cause) -> SluiceError | None:
    if not cause.type.endswith(_NOT_ANALYSED) or _known(cause.condition) is not None:
        return None
    refusal = unsupported("this query")
    refusal.fields["D"] = _first_line(cause.message)
    return refusal


def _of_conditions(causes: list[_Cause]) -> SluiceError:
    # The deepest condition says most; that of the job that failed because of it says least.
    for cause in reversed(causes):
        if cause.condition is not None and not cause.condition.startswith("INTERNAL_ERROR"):
            return _of_condition(cause.condition, cause.sqlstate, cause.parameters or {}, cause.message)
    for cause in reversed(causes):
        match = _CONDITION_TEXT.search(cause.message)
        if match is not None:
            told = _SQLSTATE.search(match[2], max(0, len(match[2]) - _SQLSTATE_LENGTH))
            return _of_condition(match[1], told and told[1], {}, match[0])
    if causes[-1].type in _BEYOND_JAVA:
        refusal = unsupported("a value beyond what Spark computes with")
        refusal.fields["D"] = _first_line(causes[-1].message)
        return refusal
    return SluiceError(
        SqlState.INTERNAL_ERROR,
        _first_line(causes[-1].message) or causes[-1].type,
        detail="\n".join(f"{cause.type}: {_first_line(cause.message)}" for cause in causes),
    )


def _causes(throwable: Any) -> list[_Cause]:
    """Return the throwable and its causes, outermost first."""
    causes: list[_Cause] = []
    while throwable is not None and len(causes) < _CAUSES_MAX:
        causes.append(_cause(throwable))
        throwable = throwable.getCause()
    return causes


def _cause(throwable: Any) -> _Cause:
    name = str(throwable.getClass().getName())
    message = str(throwable.getMessage() or "")
    try:
        condition = throwable.getCondition()
        sqlstate = throwable.getSqlState()
        contexts = throwable.getQueryContext()
        parameters = {**throwable.getMessageParameters(), _FRAGMENT: contexts[0].fragment() if len(contexts) else ""}
    except Py4JNetworkError:
        raise
    except Py4JError:  # not a SparkThrowable
        return _Cause(name, message)
    return _Cause(name, message, condition, sqlstate, parameters)


def _system_failure(cause: _Cause) -> SluiceError | None:
    if cause.type == "java.lang.StackOverflowError":
        return too_deep()
    if "No space left on device" in cause.message or "Disk quota exceeded" in cause.message:
        return SluiceError(SqlState.DISK_FULL, "could not write to the lake: No space left on device")
    if _EXECUTOR_LOST in cause.message:
        return worker_lost()
    if cause.type == "java.lang.OutOfMemoryError" or any(text in cause.message for text in _NO_MEMORY):
        return SluiceError(_OUT_OF_MEMORY, "out of memory", detail="Spark's Java heap is exhausted.")
    return None


def _known(name: str | None) -> Condition | None:
    return None if name is None else _BY_NAME.get(name) or _BY_NAME.get(name.partition(".")[0])


def _of_condition(name: str, sqlstate: str | None, parameters: Mapping[str, str], text: str) -> SluiceError:
    condition = _known(name)
    if condition is not None:
        message = condition.message if isinstance(condition.message, str) else condition.message(parameters)
        detail = _first_line(text) if condition.sqlstate == SqlState.DATA_CORRUPTED else None
        return SluiceError(condition.sqlstate, message, detail=detail)
    match = _CONDITION_TEXT.search(text)
    message = _first_line(text)
    if match:
        start = max(0, len(match[2]) - _SQLSTATE_LENGTH)
        message = _first_line(match[2][:start] + _SQLSTATE.sub("", match[2][start:]))
    if len(message) <= _ADVISED_MAX:
        message = _ADVICE.sub("", message)
    known = sqlstate is not None and _STANDARD_SQLSTATE.fullmatch(sqlstate) is not None
    return SluiceError(sqlstate if known and sqlstate else SqlState.INTERNAL_ERROR, message or name)


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else ""


def _plain_path(path: str) -> str:
    return re.sub(r"^file:/*", "/", path)
