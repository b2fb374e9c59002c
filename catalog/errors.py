"""The one exception that clients see, with the fields of PostgreSQL's ErrorResponse.

Source of the codes: PostgreSQL documentation, appendix "PostgreSQL Error Codes"; of the fields: chapter "Error and
Notice Message Fields" of the protocol description.
"""

from __future__ import annotations

from enum import StrEnum


class SqlState(StrEnum):
    """The SQLSTATEs that Sluice raises; all others come from PostgreSQL and are relayed."""

    SUCCESSFUL_COMPLETION = "00000"
    PROTOCOL_VIOLATION = "08P01"
    FEATURE_NOT_SUPPORTED = "0A000"
    CARDINALITY_VIOLATION = "21000"
    NUMERIC_VALUE_OUT_OF_RANGE = "22003"
    NULL_VALUE_NOT_ALLOWED = "22004"
    DATETIME_FIELD_OVERFLOW = "22008"
    SEQUENCE_GENERATOR_LIMIT_EXCEEDED = "2200H"
    DIVISION_BY_ZERO = "22012"
    INVALID_PARAMETER_VALUE = "22023"
    INVALID_TEXT_REPRESENTATION = "22P02"
    INVALID_BINARY_REPRESENTATION = "22P03"
    BAD_COPY_FILE_FORMAT = "22P04"
    CHARACTER_NOT_IN_REPERTOIRE = "22021"
    RESTRICT_VIOLATION = "23001"
    NOT_NULL_VIOLATION = "23502"
    FOREIGN_KEY_VIOLATION = "23503"
    UNIQUE_VIOLATION = "23505"
    CHECK_VIOLATION = "23514"
    EXCLUSION_VIOLATION = "23P01"
    INVALID_CURSOR_STATE = "24000"
    ACTIVE_SQL_TRANSACTION = "25001"
    READ_ONLY_SQL_TRANSACTION = "25006"
    NO_ACTIVE_SQL_TRANSACTION = "25P01"
    IN_FAILED_SQL_TRANSACTION = "25P02"
    TRANSACTION_TIMEOUT = "25P04"
    INVALID_AUTHORIZATION = "28000"
    INVALID_PASSWORD = "28P01"
    INVALID_CURSOR_NAME = "34000"
    INVALID_SAVEPOINT = "3B001"
    SERIALIZATION_FAILURE = "40001"
    DEADLOCK_DETECTED = "40P01"
    INSUFFICIENT_PRIVILEGE = "42501"
    SYNTAX_ERROR = "42601"
    INVALID_SQL_STATEMENT_NAME = "26000"
    UNDEFINED_TABLE = "42P01"
    RESERVED_NAME = "42939"
    PROGRAM_LIMIT_EXCEEDED = "54000"
    STATEMENT_TOO_COMPLEX = "54001"
    OBJECT_IN_USE = "55006"
    LOCK_NOT_AVAILABLE = "55P03"
    INSUFFICIENT_RESOURCES = "53000"
    DISK_FULL = "53100"
    CONFIGURATION_LIMIT_EXCEEDED = "53400"
    TOO_MANY_CONNECTIONS = "53300"
    OBJECT_NOT_IN_PREREQUISITE_STATE = "55000"
    QUERY_CANCELED = "57014"
    ADMIN_SHUTDOWN = "57P01"
    CRASH_SHUTDOWN = "57P02"
    CANNOT_CONNECT_NOW = "57P03"
    SYSTEM_ERROR = "58000"
    IO_ERROR = "58030"
    INTERNAL_ERROR = "XX000"
    DATA_CORRUPTED = "XX001"


class SluiceError(Exception):
    """An error with PostgreSQL's fields. `fields` maps a protocol field code (one letter) to its text.

    `position` counts characters of the statement from 1, as the protocol does; None if there is none.
    """

    def __init__(
        self,
        sqlstate: str,
        message: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        position: int | None = None,
        schema: str | None = None,
        table: str | None = None,
        column: str | None = None,
        datatype: str | None = None,
        constraint: str | None = None,
        severity: str = "ERROR",
    ) -> None:
        super().__init__(message)
        self.sqlstate = str(sqlstate)
        self.message = message
        self.severity = severity
        optional = {
            "D": detail, "H": hint, "P": None if position is None else str(position),
            "s": schema, "t": table, "c": column, "d": datatype, "n": constraint,
        }  # fmt: skip
        self.fields: dict[str, str] = {
            "S": severity,
            "V": severity,
            "C": self.sqlstate,
            "M": message,
            **{code: text for code, text in optional.items() if text is not None},
        }


def too_deep() -> SluiceError:
    """Return PostgreSQL's error for a statement that its stack has no room for."""
    return SluiceError(
        SqlState.STATEMENT_TOO_COMPLEX,
        "stack depth limit exceeded",
        hint='Increase the configuration parameter "max_stack_depth" (currently 2048kB), after ensuring the'
        " platform's stack depth limit is adequate.",
    )


def unsupported(construct: str, *, hint: str | None = None, position: int | None = None) -> SluiceError:
    """Return the refusal (0A000) that names a construct. A refusal replaces a wrong or empty answer."""
    return SluiceError(
        SqlState.FEATURE_NOT_SUPPORTED,
        f"{construct} is not supported on lake tables",
        hint=hint,
        position=position,
    )
