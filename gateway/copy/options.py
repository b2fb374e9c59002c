"""The options of a COPY, checked as PostgreSQL checks them.

Source: `ProcessCopyOptions` in PostgreSQL's copy.c; its order of checks and its words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from catalog.errors import SluiceError, SqlState, unsupported

_TRUE: Final = {"true", "on", "1"}
_FALSE: Final = {"false", "off", "0"}
# Bytes that COPY's text format gives a meaning of its own.
_NOT_DELIMITERS: Final = "\\.abcdefghijklmnopqrstuvwxyz0123456789"
_KNOWN: Final = frozenset({
    "format", "freeze", "delimiter", "null", "default", "header", "quote", "escape", "force_quote", "force_not_null",
    "force_null", "convert_selectively", "encoding", "on_error", "log_verbosity", "reject_limit",
})  # fmt: skip


class CopyFormat(StrEnum):
    """COPY's formats."""

    TEXT = "text"
    CSV = "csv"
    BINARY = "binary"


class Header(StrEnum):
    """Whether there is a header line, and whether reading checks it."""

    FALSE = "false"
    TRUE = "true"
    MATCH = "match"


def _error(sqlstate: str, message: str) -> SluiceError:
    return SluiceError(sqlstate, message)


_SYNTAX: Final = SqlState.SYNTAX_ERROR
_INVALID: Final = SqlState.INVALID_PARAMETER_VALUE
_LACKING: Final = SqlState.FEATURE_NOT_SUPPORTED


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """The options of one COPY, with COPY's defaults filled in. `force_…` hold positions among the copied columns."""

    format: CopyFormat = CopyFormat.TEXT
    delimiter: bytes = b"\t"
    null: str = "\\N"
    default: str | None = None
    header: Header = Header.FALSE
    quote: bytes = b'"'
    escape: bytes = b'"'
    force_quote: frozenset[int] = frozenset()
    force_not_null: frozenset[int] = frozenset()
    force_null: frozenset[int] = frozenset()

    @staticmethod
    def parse(
        options: Mapping[str, object],
        column_names: Sequence[str],
        *,
        is_from: bool,
        relation: str | None = None,
        relation_columns: Sequence[str] = (),
    ) -> CopyOptions:
        """From option names in lower case and their values: text, bool, True for a bare name, a sequence of column
        names, or "*". Raises PostgreSQL's own error for what it refuses, 0A000 for what Sluice lacks.

        `column_names` are those copied. `relation`, None for a query, and all of its columns are for the errors.
        """
        for name in options:
            if name not in _KNOWN:
                raise _error(_SYNTAX, f'option "{name}" not recognized')
        _refuse_what_is_lacking(options)
        kind = _format(options)
        binary, csv = kind is CopyFormat.BINARY, kind is CopyFormat.CSV
        for name in ("delimiter", "null", "default"):
            if binary and name in options:
                raise _error(_SYNTAX, f"cannot specify {name.upper()} in BINARY mode")
        delimiter = _text(options, "delimiter") or ("," if csv else "\t")
        null = _text(options, "null")
        quote = _text(options, "quote")
        escape = _text(options, "escape")
        made = CopyOptions(
            kind,
            delimiter.encode(),
            null if null is not None else ("" if csv else "\\N"),
            _text(options, "default"),
            _header(options, is_from=is_from),
            (quote if quote is not None else '"').encode(),
            (escape if escape is not None else quote if quote is not None else '"').encode(),
            _columns(options, "force_quote", column_names, relation, relation_columns),
            _columns(options, "force_not_null", column_names, relation, relation_columns),
            _columns(options, "force_null", column_names, relation, relation_columns),
        )
        _check(made, options, is_from=is_from)
        return made


def _refuse_what_is_lacking(options: Mapping[str, object]) -> None:
    if "freeze" in options and _boolean(options, "freeze"):
        raise unsupported("COPY with FREEZE")
    if "convert_selectively" in options:
        raise unsupported("COPY with CONVERT_SELECTIVELY")
    on_error = str(options.get("on_error", "stop")).lower()
    if on_error != "stop":
        raise unsupported(f"COPY with ON_ERROR {on_error}")
    if "reject_limit" in options:
        raise _error(_SYNTAX, "COPY REJECT_LIMIT requires ON_ERROR to be set to IGNORE")
    encoding = str(options.get("encoding", "utf8")).lower().replace("-", "").replace("_", "")
    if encoding not in {"utf8", "unicode"}:
        raise unsupported(f"COPY with ENCODING {encoding}")


def _format(options: Mapping[str, object]) -> CopyFormat:
    given = str(options.get("format", "text"))
    try:
        return CopyFormat(given)
    except ValueError:
        raise _error(_INVALID, f'COPY format "{given}" not recognized') from None


def _text(options: Mapping[str, object], name: str) -> str | None:
    value = options.get(name)
    if value is None:
        return None
    if isinstance(value, bool):
        raise _error(_SYNTAX, f"{name} requires a parameter")
    return str(value)


def _boolean(options: Mapping[str, object], name: str) -> bool:
    value = str(options[name]).lower()
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise _error(_SYNTAX, f"{name} requires a Boolean value")


def _header(options: Mapping[str, object], *, is_from: bool) -> Header:
    value = str(options.get("header", False)).lower()
    if value in _TRUE:
        return Header.TRUE
    if value in _FALSE:
        return Header.FALSE
    if value != "match":
        raise _error(_SYNTAX, 'header requires a Boolean value or "match"')
    if not is_from:
        raise _error(_LACKING, 'cannot use "match" with HEADER in COPY TO')
    return Header.MATCH


def _columns(
    options: Mapping[str, object], name: str, column_names: Sequence[str], relation: str | None, others: Sequence[str]
) -> frozenset[int]:
    value = options.get(name)
    if value is None:
        return frozenset()
    if value == "*":
        return frozenset(range(len(column_names)))
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise _error(_INVALID, f'argument to option "{name}" must be a list of column names')
    places = []
    for column in value:
        if column in column_names:
            places.append(column_names.index(column))
        elif column in others:
            raise _error("42P10", f'{name.upper()} column "{column}" not referenced by COPY')
        else:
            of_relation = "" if relation is None else f' of relation "{relation}"'
            raise _error("42703", f'column "{column}"{of_relation} does not exist')
    return frozenset(places)


def _one_byte(text: bytes, name: str) -> None:
    if len(text) != 1:
        raise _error(_LACKING, f"COPY {name} must be a single one-byte character")


def _check(made: CopyOptions, options: Mapping[str, object], *, is_from: bool) -> None:
    csv, binary = made.format is CopyFormat.CSV, made.format is CopyFormat.BINARY
    _one_byte(made.delimiter, "delimiter")
    if made.delimiter in b"\r\n":
        raise _error(_INVALID, "COPY delimiter cannot be newline or carriage return")
    if "\r" in made.null or "\n" in made.null:
        raise _error(_INVALID, "COPY null representation cannot use newline or carriage return")
    if made.default is not None and ("\r" in made.default or "\n" in made.default):
        raise _error(_INVALID, "COPY default representation cannot use newline or carriage return")
    if not csv and made.delimiter.decode() in _NOT_DELIMITERS:
        raise _error(_INVALID, f'COPY delimiter cannot be "{made.delimiter.decode()}"')
    if binary and made.header is not Header.FALSE:
        raise _error(_LACKING, "cannot specify HEADER in BINARY mode")
    for name in ("quote", "escape"):
        if name in options and not csv:
            raise _error(_LACKING, f"COPY {name.upper()} requires CSV mode")
    if csv:
        _one_byte(made.quote, "quote")
        if made.delimiter == made.quote:
            raise _error(_INVALID, "COPY delimiter and quote must be different")
        _one_byte(made.escape, "escape")
    _check_forced(made, options, is_from=is_from)
    if made.delimiter.decode() in made.null:
        raise _error(_INVALID, "COPY delimiter character must not appear in the NULL specification")
    if csv and made.quote.decode() in made.null:
        raise _error(_INVALID, "CSV quote character must not appear in the NULL specification")
    _check_default(made, is_from=is_from)


def _check_forced(made: CopyOptions, options: Mapping[str, object], *, is_from: bool) -> None:
    forced = (("force_quote", False, _LACKING), ("force_not_null", True, _INVALID), ("force_null", True, _INVALID))
    for name, in_from, sqlstate in forced:
        if name not in options:
            continue
        if made.format is not CopyFormat.CSV:
            raise _error(_LACKING, f"COPY {name.upper()} requires CSV mode")
        if is_from != in_from:
            raise _error(sqlstate, f"COPY {name.upper()} cannot be used with COPY {'FROM' if is_from else 'TO'}")


def _check_default(made: CopyOptions, *, is_from: bool) -> None:
    if made.default is None:
        return
    if not is_from:
        raise _error(_LACKING, "COPY DEFAULT cannot be used with COPY TO")
    if made.delimiter.decode() in made.default:
        raise _error(_LACKING, "COPY delimiter character must not appear in the DEFAULT specification")
    if made.format is CopyFormat.CSV and made.quote.decode() in made.default:
        raise _error(_LACKING, "CSV quote character must not appear in the DEFAULT specification")
    if made.default == made.null:
        raise _error(_LACKING, "NULL specification and DEFAULT specification cannot be the same")
