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


def test_a_transaction_is_seen_as_a_whole(gateway: Server, schema: str, witness: Witness) -> None:
    """Nothing of it before COMMIT; then everything in one snapshot, of all tables, and nothing that was undone."""
    options = f"-c search_path={schema}"
    with (
        psycopg.connect(gateway.url, options=options) as connection,
        psycopg.connect(gateway.url, options=options, autocommit=True) as other,
    ):
        for table in ("kept", "emptied"):
            other.execute(f"CREATE TABLE {table} (n integer)".encode())
            other.execute(f"INSERT INTO {table} VALUES (1), (2), (3)".encode())

        def numbers(table: str, snapshot: int) -> list[int]:
            name = f"{witness.lake}.{schema}.{table}"
            return [n for (n,) in witness.rows(f"SELECT n FROM {name} AT (VERSION => {snapshot}) ORDER BY n")]

        def seen(snapshot: int) -> list[object]:
            named = f"schema_name = '{schema}' AND database_name = '{witness.lake}'"
            tables = witness.rows(f"SELECT table_name FROM duckdb_tables() WHERE {named} ORDER BY 1")
            return [[name for (name,) in tables], numbers("kept", snapshot), numbers("emptied", snapshot)]

        before = witness.snapshot()
        committed = [["emptied", "kept"], [1, 2, 3], [1, 2, 3]]
        assert seen(before) == committed
        for statement in (
            "INSERT INTO kept VALUES (4)",
            "UPDATE kept SET n = n + 10 WHERE n = 1",
            "DELETE FROM emptied",
            "CREATE TABLE made AS SELECT n FROM kept",
            "SAVEPOINT s",
            "DELETE FROM kept",
            "INSERT INTO emptied VALUES (9)",
            "ROLLBACK TO s",
        ):
            connection.execute(statement.encode())
            assert witness.snapshot() == before
            assert seen(before) == committed
            assert other.execute("SELECT count(*), sum(n) FROM kept").fetchone() == (3, 6)
        connection.commit()
        after = witness.snapshot()
        whole = [["emptied", "kept", "made"], [2, 3, 4, 11], []]
        assert seen(after) == whole
        assert numbers("made", after) == [2, 3, 4, 11]
        between = [seen(snapshot)[1:] for snapshot in range(before, after + 1)]
        assert [state for state in between if state not in (committed[1:], whole[1:])] == []


def test_initial_defaults(gateway: Server, schema: str, witness: Witness) -> None:
    """What rows have in columns that they were written without is DuckDB's own text of it."""
    defaults = {
        "bytea": r"'\x00ff415c27'",
        "date": "'0044-03-15 BC'",
        "timestamp": "'4713-01-01 00:00:00.25 BC'",
        "timestamptz": "'0001-12-31 23:59:59+00 BC'",
        "text": "'ends in BC'",
        "time": "'24:00'",
        "boolean": "false",
        "double precision": "'-Infinity'",
        "numeric(10, 2)": "-1.5",
        "uuid": "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
        "varchar(9)": r"'\x41'",
    }
    added = ", ".join(f"ADD c{place} {kind} DEFAULT {value}" for place, (kind, value) in enumerate(defaults.items()))
    with psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        connection.execute("CREATE TABLE visit (id integer)")
        connection.execute("INSERT INTO visit VALUES (1)")
        connection.execute(f"ALTER TABLE visit {added}")
    columns = ", ".join(f"c{place}::text" for place, _ in enumerate(defaults))
    witness.rows("SET TimeZone = 'UTC'")
    [found] = witness.table(f"{schema}.visit", witness.snapshot(), f"hex(c0), {columns}")
    assert found[0] == "00FF415C27"
    assert found[2:] == (
        "0044-03-15 (BC)",
        "4713-01-01 (BC) 00:00:00.25",
        "0001-12-31 (BC) 23:59:59+00",
        "ends in BC",
        "24:00:00",
        "false",
        "-inf",
        "-1.50",
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        r"\x41",
    )


def test_it_only_reads(witness: Witness) -> None:
    """Others read; only gateways write."""
    with pytest.raises(duckdb.Error, match="read-only"):
        witness.rows(f"CREATE TABLE {witness.lake}.intruder (i integer)")
