"""The options of a COPY, read once PostgreSQL has accepted them (`gateway.execution.dispatch.rehearsed_copy`).

Source: `ProcessCopyOptions` in PostgreSQL's copy.c, for what the values mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from catalog.errors import unsupported
from planner.syntax.lexer import quoted

_TRUE: Final = {"true", "on", "1"}


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


class LogVerbosity(StrEnum):
    """What is said of rows that ON_ERROR leaves out: nothing, how many, or each of them too."""

    SILENT = "silent"
    DEFAULT = "default"
    VERBOSE = "verbose"


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """The options of one COPY, with COPY's defaults filled in. `force_…` hold positions among the copied columns.

    `encoding` is as it was written, None where the client's own applies; `reject_limit` 0 where there is none.
    """

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
    encoding: str | None = None
    freeze: bool = False
    ignores_errors: bool = False
    reject_limit: int = 0
    log_verbosity: LogVerbosity = LogVerbosity.DEFAULT

    @staticmethod
    def read(options: Mapping[str, object], column_names: Sequence[str]) -> CopyOptions:
        """From option names in lower case and their values: text, bool, True for a bare name, a sequence of column
        names, or "*". PostgreSQL must have accepted them for these columns."""
        if "convert_selectively" in options:
            raise unsupported("COPY with CONVERT_SELECTIVELY")
        texts = {name: str(value) for name, value in options.items()}
        kind = CopyFormat(texts.get("format", "text"))
        csv = kind is CopyFormat.CSV
        quote = texts.get("quote", '"')
        return CopyOptions(
            format=kind,
            delimiter=texts.get("delimiter", "," if csv else "\t").encode(),
            null=texts.get("null", "" if csv else "\\N"),
            default=texts.get("default"),
            header=_header(texts.get("header", "false")),
            quote=quote.encode(),
            escape=texts.get("escape", quote).encode(),
            force_quote=_columns(options.get("force_quote"), column_names),
            force_not_null=_columns(options.get("force_not_null"), column_names),
            force_null=_columns(options.get("force_null"), column_names),
            encoding=texts.get("encoding"),
            freeze=texts.get("freeze", "false").lower() in _TRUE,
            ignores_errors=texts.get("on_error", "stop").lower() == "ignore",
            reject_limit=int(texts.get("reject_limit", "0")),
            log_verbosity=LogVerbosity(texts.get("log_verbosity", "default").lower()),
        )

    def of_rows(self, column_names: Sequence[str]) -> str:
        """The options, as SQL takes them, of a COPY FROM of rows that stand in this one's data, in UTF8."""
        words = [f"FORMAT {self.format}"]
        if self.format is CopyFormat.BINARY:
            return words[0]
        texts: list[tuple[str, str | None]] = [
            ("DELIMITER", self.delimiter.decode()),
            ("NULL", self.null),
            ("DEFAULT", self.default),
            ("ENCODING", "UTF8"),
        ]
        if self.format is CopyFormat.CSV:
            texts += [("QUOTE", self.quote.decode()), ("ESCAPE", self.escape.decode())]
        words += [f"{name} {_literal(text)}" for name, text in texts if text is not None]
        for name, places in (("FORCE_NOT_NULL", self.force_not_null), ("FORCE_NULL", self.force_null)):
            if places:
                words.append(f"{name} ({', '.join(quoted(column_names[place]) for place in sorted(places))})")
        if self.ignores_errors:
            words.append("ON_ERROR ignore, LOG_VERBOSITY verbose")
        return ", ".join(words)


def _literal(text: str) -> str:
    """A string constant, whatever standard_conforming_strings says."""
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"E'{escaped}'"


def _header(value: str) -> Header:
    word = value.lower()
    return Header.MATCH if word == "match" else Header.TRUE if word in _TRUE else Header.FALSE


def _columns(value: object, column_names: Sequence[str]) -> frozenset[int]:
    if value is None:
        return frozenset()
    if value == "*":
        return frozenset(range(len(column_names)))
    assert isinstance(value, Sequence)
    return frozenset(column_names.index(str(column)) for column in value)
