"""DuckDB, which knows nothing of Sluice, attaches to the lake and reads every table at every snapshot alike."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import psycopg
import pytest

from tests.clients import story
from tests.clients.test_psycopg import copy_binary
from tests.servers import GatewayProcess, Server
from tests.witness import Witness

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture
def witness(gateway_process: GatewayProcess) -> Iterator[Witness]:
    witness = Witness(gateway_process.data_dir)
    yield witness
    witness.close()


def lake_form(value: Any, type_name: str) -> Any:
    """A value of the story as the lake holds it, in DuckDB's Python form."""
    match value:
        case None:
            return None
        case _ if type_name in {"json", "jsonb"}:
            return story.text_of(value, type_name)
        case Decimal() if type_name == "numeric":
            return story.text_of(value, type_name)
        case timedelta():
            return {"months": 0, **_days_and_microseconds(value)}
        case datetime() if type_name == "timestamptz":
            return (value - _EPOCH) // timedelta(microseconds=1)
        case _:
            return value


def _days_and_microseconds(value: timedelta) -> dict[str, int]:
    """As psycopg sends a timedelta: PostgreSQL keeps days and time of day apart."""
    return {"days": value.days, "microseconds": (value - timedelta(days=value.days)) // timedelta(microseconds=1)}


def test_every_type(gateway: Server, schema: str, witness: Witness) -> None:
    with psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        connection.execute(story.CREATE[0])
        copy_binary(connection, "")
    # DuckDB's Python gives timestamptz only where pytz is installed.
    columns = ", ".join("epoch_us(instant)" if name == "instant" else f'"{name}"' for name in story.COLUMNS)
    found = witness.table(f"{schema}.reading", witness.snapshot(), columns)
    assert len(found) == len(story.ROWS)
    for row, wanted in zip(found, story.ROWS, strict=True):
        for value, expected, type_name in zip(row, wanted, story.TYPES, strict=True):
            assert story.same(value, lake_form(expected, type_name)), (type_name, value, expected)


# Each is a transaction of its own, and so a snapshot; what they leave is compared after each and again at the end.
HISTORY = (
    "CREATE TABLE {s}.item (id integer, name text, price numeric(10,2))",
    "INSERT INTO {s}.item VALUES (1, 'one', 1.10), (2, 'two', 2.20), (3, NULL, NULL)",
    "INSERT INTO {s}.item SELECT n, 'number ' || n, n FROM generate_series(4, 2000) AS n",
    "UPDATE {s}.item SET price = price + 1 WHERE id % 7 = 0",
    "DELETE FROM {s}.item WHERE id % 11 = 0",
    "UPDATE {s}.item SET name = upper(name) WHERE id % 5 = 0",
    "DELETE FROM {s}.item WHERE id BETWEEN 100 AND 900",
    "CREATE TABLE {s}.copy AS SELECT * FROM {s}.item WHERE id < 50",
    "INSERT INTO {s}.copy VALUES (0, '', 0)",
    "TRUNCATE {s}.item",
    "INSERT INTO {s}.item VALUES (1, 'again', 1)",
    # DuckDB sorts by a table's bounds: they have to hold for rows that were there before the column.
    "ALTER TABLE {s}.copy ADD COLUMN rank integer DEFAULT 7, ADD COLUMN note text",
    "INSERT INTO {s}.copy VALUES (51, 'x', 1, 300, 'new'), (52, 'y', 2, 310, 'new')",
    "DELETE FROM {s}.copy",
    "DROP TABLE {s}.item",
)


def test_every_snapshot(gateway: Server, schema: str, witness: Witness) -> None:
    seen: list[tuple[int, str, list[tuple[Any, ...]]]] = []
    with psycopg.connect(gateway.url, autocommit=True) as connection:
        for statement in HISTORY:
            connection.execute(statement.format(s=schema))
            snapshot = witness.snapshot()
            assert not seen or snapshot > seen[-1][0], "a statement that changes the lake makes a snapshot"
            tables = connection.execute(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = %s ORDER BY 1", [schema]
            ).fetchall()
            for (table,) in tables:
                rows = connection.execute(f"SELECT * FROM {schema}.{table} ORDER BY 1, 2").fetchall()
                seen.append((snapshot, table, rows))
    assert len(seen) > len(HISTORY)
    for snapshot, table, rows in seen:
        assert witness.table(f"{schema}.{table}", snapshot) == rows, (snapshot, table)


def test_it_only_reads(witness: Witness) -> None:
    """Others read; only gateways write."""
    with pytest.raises(duckdb.Error, match="read-only"):
        witness.rows(f"CREATE TABLE {witness.lake}.intruder (i integer)")
