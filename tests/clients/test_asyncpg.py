"""The story through asyncpg, which prepares every statement and speaks binary alone."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from tests.clients import story
from tests.servers import Server

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]


def binary_json(version: bytes) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    """(encoder, decoder) of a binary form of JSON that begins with `version`."""
    return (
        lambda value: version + json.dumps(value).encode(),
        lambda data: json.loads(data.removeprefix(version)),
    )


@pytest.fixture
async def connection(target: Server, target_schema: str) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(target.url, server_settings={"search_path": target_schema})
    # COPY needs the binary forms: of json its text, of jsonb a version and the text.
    for name, version in (("json", b""), ("jsonb", b"\x01")):
        encoder, decoder = binary_json(version)
        await connection.set_type_codec(name, schema="pg_catalog", encoder=encoder, decoder=decoder, format="binary")
    yield connection
    await connection.close()


async def copy_records(connection: Connection) -> None:
    tag = await connection.copy_records_to_table("reading", records=story.ROWS)
    assert tag == "COPY 6"


async def execute_many(connection: Connection) -> None:
    placeholders = ", ".join(f"${n}" for n in range(1, len(story.COLUMNS) + 1))
    await connection.executemany(f"INSERT INTO reading VALUES ({placeholders})", story.ROWS)


@pytest.mark.parametrize("load", [copy_records, execute_many])
async def test_story(connection: Connection, load: Callable[[Connection], Awaitable[None]]) -> None:
    for sql in story.CREATE:
        assert await connection.execute(sql) == "CREATE TABLE"
    await connection.copy_records_to_table("label", records=story.LABELS)
    await load(connection)
    for step in (*story.QUERIES, *story.CHANGES):
        statement = await connection.prepare(step.sql)
        rows = await statement.fetch(*(parameter.value for parameter in step.parameters))
        assert statement.get_statusmsg() == step.tag
        story.check_rows(step, [tuple(row) for row in rows])
    for refusal in story.REFUSALS:
        with pytest.raises(asyncpg.PostgresError) as caught:
            await connection.fetch(refusal.sql)
        assert caught.value.sqlstate == refusal.sqlstate
        assert getattr(caught.value, "constraint_name", None) == refusal.constraint
        assert getattr(caught.value, "column_name", None) == refusal.column
    rows = await connection.fetch(story.AFTER_REFUSALS.sql)
    story.check_rows(story.AFTER_REFUSALS, [tuple(row) for row in rows])


async def test_a_prepared_statement_is_used_again(connection: Connection) -> None:
    await connection.execute("CREATE TABLE numbers (n integer, t text)")
    await connection.executemany("INSERT INTO numbers VALUES ($1, $2)", [(n, str(n)) for n in range(50)])
    statement = await connection.prepare("SELECT t FROM numbers WHERE n = $1")
    assert [await statement.fetchval(n) for n in (7, 49, 50)] == ["7", "49", None]
    parameters = statement.get_parameters()
    assert [parameter.name for parameter in parameters] == ["int4"]


async def test_copy_out(connection: Connection) -> None:
    await connection.execute("CREATE TABLE numbers (n integer, t text)")
    await connection.copy_records_to_table("numbers", records=[(1, "a"), (2, None), (3, "")])
    chunks: list[bytes] = []

    async def keep(data: bytes) -> None:
        chunks.append(data)

    tag = await connection.copy_from_query("SELECT * FROM numbers ORDER BY n", output=keep, format="csv")
    assert (tag, b"".join(chunks)) == ("COPY 3", b'1,a\n2,\n3,""\n')


async def test_a_portal_with_a_row_limit(connection: Connection) -> None:
    """fetchrow and fetchval execute for one row and leave the rest of the portal."""
    await connection.execute("CREATE TABLE numbers (n integer)")
    await connection.copy_records_to_table("numbers", records=[(n,) for n in range(5000)])
    statement = await connection.prepare("SELECT n FROM numbers ORDER BY n DESC")
    assert await statement.fetchval() == 4999
    row = await statement.fetchrow()
    assert row is not None
    assert row["n"] == 4999
    assert len(await statement.fetch()) == 5000
