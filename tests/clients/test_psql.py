"""The story through psql: the one of the system (15 on Debian 12), and 18."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.clients import story
from tests.servers import PSQL_18, PSQL_SYSTEM, Server

_ROW_END, _FIELD_END, _NULL = "\x1e", "\x1f", "\x1d"
_LAYOUT = ("-qAt", "-F", _FIELD_END, "-R", _ROW_END, "-P", f"null={_NULL}", "-v", "ON_ERROR_STOP=1")


class Psql:
    """One psql, one server, one schema; each call is a session of its own."""

    def __init__(self, server: Server, program: Path, schema: str) -> None:
        self.server = server
        self.program = program
        self.schema = schema

    def script(self, sql: str, *arguments: str, check: bool = True) -> tuple[str, str]:
        done = self.server.psql(
            *arguments, sql=f"SET search_path = {self.schema};\n{sql}\n", program=self.program, check=check
        )
        return done.stdout, done.stderr

    def rows(self, sql: str) -> list[tuple[str | None, ...]]:
        out, _ = self.script(f"{sql};", *_LAYOUT)
        return [
            tuple(None if field == _NULL else field for field in row.split(_FIELD_END))
            for row in out.removesuffix("\n").split(_ROW_END)
            if row
        ]

    def tag(self, sql: str) -> str:
        out, _ = self.script(f"{sql};", "-At", "-v", "ON_ERROR_STOP=1")
        return out.removesuffix("\n").rpartition("\n")[2]


def literal(text: str | None) -> str:
    return "NULL" if text is None else "'" + text.replace("'", "''") + "'"


def with_literals(step: story.Step) -> str:
    """The statement with its parameters written into it."""

    def value(match: re.Match[str]) -> str:
        parameter = step.parameters[int(match[1]) - 1]
        return f"{literal(story.text_of(parameter.value, parameter.type_name))}::{parameter.type_name}"

    return re.sub(r"\$(\d+)", value, step.sql)


def expected(step: story.Step) -> list[tuple[str | None, ...]]:
    return [story.row_texts(step.types, row) for row in step.rows]


def text_format(rows: Sequence[story.Row], types: Sequence[str]) -> str:
    escapes = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
    lines = (
        "\t".join("\\N" if text is None else text.translate(escapes) for text in story.row_texts(types, row))
        for row in rows
    )
    return "\n".join(lines) + "\n\\.\n"


@pytest.fixture(params=[PSQL_SYSTEM, PSQL_18], ids=["system", "18"])
def psql(request: pytest.FixtureRequest, target: Server, target_schema: str) -> Psql:
    return Psql(target, request.param, target_schema)


def load_text(psql: Psql, directory: Path) -> None:
    psql.script("COPY reading FROM STDIN;\n" + text_format(story.ROWS, story.TYPES), "-v", "ON_ERROR_STOP=1")


def load_csv(psql: Psql, directory: Path) -> None:
    """Fields are quoted unless NULL, so that the empty string and NULL are told apart."""
    file = directory / "rows.csv"
    lines = []
    for row in story.ROWS:
        quoted = ('"' + t.replace('"', '""') + '"' if t is not None else "" for t in story.row_texts(story.TYPES, row))
        lines.append(",".join(quoted))
    file.write_text("\n".join([",".join(story.COLUMNS), *lines, ""]), newline="")
    psql.script(f"\\copy reading from '{file}' with (format csv, header match)", "-v", "ON_ERROR_STOP=1")


def load_values(psql: Psql, directory: Path) -> None:
    values = ("(" + ", ".join(map(literal, story.row_texts(story.TYPES, row))) + ")" for row in story.ROWS)
    psql.script(f"INSERT INTO reading VALUES {', '.join(values)};", "-v", "ON_ERROR_STOP=1")


@pytest.mark.turns
@pytest.mark.parametrize("load", [load_text, load_csv, load_values])
def test_story(psql: Psql, load: object, tmp_path: Path) -> None:
    assert callable(load)
    for statement in story.CREATE:
        assert psql.tag(statement) == "CREATE TABLE"
    psql.script("COPY label FROM STDIN;\n" + text_format(story.LABELS, ("text", "text")), "-v", "ON_ERROR_STOP=1")
    load(psql, tmp_path)
    for step in (*story.QUERIES, *story.CHANGES):
        sql = with_literals(step)
        if step.types:
            rows = psql.rows(sql)
            assert (rows if step.ordered else sorted(rows, key=str)) == expected(step), sql
        else:
            assert psql.tag(sql) == step.tag
    for refusal in story.REFUSALS:
        _, error = psql.script(f"\\set VERBOSITY verbose\n{refusal.sql};", check=False)
        assert f"ERROR:  {refusal.sqlstate}:" in error, refusal.sql
        if refusal.constraint is not None:
            assert f"CONSTRAINT NAME:  {refusal.constraint}" in error
        if refusal.column is not None:
            assert f"COLUMN NAME:  {refusal.column}" in error
    assert psql.rows(story.AFTER_REFUSALS.sql) == expected(story.AFTER_REFUSALS)


def test_copy_out(psql: Psql, tmp_path: Path) -> None:
    """What COPY TO writes is, byte for byte, what was loaded."""
    psql.script(story.CREATE[0] + ";")
    load_text(psql, tmp_path)
    out, _ = psql.script("COPY (SELECT * FROM reading ORDER BY id) TO STDOUT;", "-q")
    assert out == text_format(story.ROWS, story.TYPES).removesuffix("\\.\n")
    file = tmp_path / "out.csv"
    psql.script(f"\\copy (SELECT id, name, price FROM reading ORDER BY id) to '{file}' with (format csv, header)")
    with file.open(newline="") as lines:
        header, *rows = csv.reader(lines)
    assert header == ["id", "name", "price"]
    texts = [story.row_texts(story.TYPES, row) for row in story.ROWS]
    assert rows == [[row[0], row[7], row[3] or ""] for row in texts]
