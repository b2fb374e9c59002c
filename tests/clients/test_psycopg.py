"""The story through psycopg 3, in text and in binary."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Json, Jsonb

from tests.clients import story
from tests.servers import Server

# The binary forms of varchar and char are that of text.
COPY_TYPES = ["text" if "char" in name else re.sub(r"\(.*\)", "", name) for name in story.TYPES]
Connection = psycopg.Connection[tuple[Any, ...]]


def adapted(types: Sequence[str], row: Sequence[Any]) -> list[Any]:
    """JSON must be told from arrays; everything else psycopg knows by its Python type."""
    wrap: dict[str, Callable[[Any], Any]] = {"json": Json, "jsonb": Jsonb}
    return [
        wrap[type_name](value) if type_name in wrap and value is not None else value
        for type_name, value in zip(types, row, strict=True)
    ]


@pytest.fixture
def connection(target: Server, target_schema: str) -> Iterator[Connection]:
    with psycopg.connect(target.url, autocommit=True, options=f"-csearch_path={target_schema}") as connection:
        yield connection


def copy_text(connection: Connection, placeholder: str) -> None:
    with connection.cursor() as cursor, cursor.copy("COPY reading FROM STDIN") as copy:
        for row in story.ROWS:
            copy.write_row(adapted(story.TYPES, row))


def copy_binary(connection: Connection, placeholder: str) -> None:
    with connection.cursor() as cursor, cursor.copy("COPY reading FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(COPY_TYPES)
        for row in story.ROWS:
            copy.write_row(adapted(story.TYPES, row))


def execute_many(connection: Connection, placeholder: str) -> None:
    placeholders = ", ".join([placeholder] * len(story.COLUMNS))
    with connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO reading VALUES ({placeholders})", [adapted(story.TYPES, row) for row in story.ROWS]
        )
        assert cursor.rowcount == len(story.ROWS)


@pytest.mark.parametrize("load", [copy_text, copy_binary, execute_many])
@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_story(connection: Connection, binary: bool, load: Callable[[Connection, str], None]) -> None:
    placeholder = "%b" if binary else "%s"
    for statement in story.CREATE:
        assert connection.execute(statement).statusmessage == "CREATE TABLE"
    with connection.cursor() as cursor, cursor.copy("COPY label FROM STDIN") as copy:
        for row in story.LABELS:
            copy.write_row(row)
    load(connection, placeholder)
    for step in (*story.QUERIES, *story.CHANGES):
        cursor = connection.cursor(binary=binary)
        cursor.execute(
            re.sub(r"\$\d+", placeholder, step.sql),
            adapted([p.type_name for p in step.parameters], [p.value for p in step.parameters]),
        )
        assert cursor.statusmessage == step.tag
        if step.types:
            story.check_rows(step, cursor.fetchall())
        else:
            assert cursor.description is None
    for refusal in story.REFUSALS:
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(refusal.sql)
        assert caught.value.sqlstate == refusal.sqlstate
        assert caught.value.diag.constraint_name == refusal.constraint
        assert caught.value.diag.column_name == refusal.column
    story.check_rows(story.AFTER_REFUSALS, connection.execute(story.AFTER_REFUSALS.sql).fetchall())


@pytest.mark.parametrize("options", ["", " (FORMAT binary)"], ids=["text", "binary"])
def test_copy_out(connection: Connection, options: str) -> None:
    connection.execute(story.CREATE[0])
    copy_binary(connection, "")
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY (SELECT * FROM reading ORDER BY id) TO STDOUT{options}") as copy,
    ):
        copy.set_types(COPY_TYPES)
        story.check_rows(story.EVERYTHING, list(copy.rows()))


def test_described_types(connection: Connection) -> None:
    """What Describe promises: names, OIDs, lengths, precision and scale."""
    connection.execute(story.CREATE[0])
    cursor = connection.execute("SELECT * FROM reading")
    assert cursor.description is not None
    by_name = {column.name: column for column in cursor.description}
    assert list(by_name) == list(story.COLUMNS)
    assert {name: column.type_code for name, column in by_name.items()} == {
        "id": 23, "small": 21, "big": 20, "price": 1700, "exact": 1700, "ratio": 700, "measure": 701, "name": 25,
        "code": 1043, "flag": 1042, "raw": 17, "active": 16, "day": 1082, "clock": 1083, "moment": 1114,
        "instant": 1184, "span": 1186, "tag": 2950, "doc": 114, "info": 3802, "numbers": 1007, "words": 1009,
    }  # fmt: skip
    assert (by_name["price"].precision, by_name["price"].scale) == (12, 2)
    assert (by_name["code"].display_size, by_name["flag"].display_size) == (8, 3)


def test_stream_and_server_side_rows(connection: Connection) -> None:
    """Single-row mode, and many more rows than fit one message."""
    connection.execute("CREATE TABLE many (n bigint, t text)")
    connection.execute("INSERT INTO many SELECT n, repeat('x', 20) FROM generate_series(1, 20000) AS n")
    total = sum(n for n, _ in connection.cursor().stream("SELECT n, t FROM many"))
    assert total == 20000 * 20001 // 2
