"""EXPLAIN of schema changes: its text, operation by operation, and that it changes nothing.

The golden file has lines that set up, and after a blank one each statement with its answer, indented.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from catalog.postgres.embedded import binaries
from tests.isolation.schedule import Session
from tests.servers import GatewayProcess, Server

_GOLDEN = Path(__file__).parents[1] / "golden" / "explain-changes.txt"
_LEFT = """
SELECT (SELECT count(*) FROM pg_sluice.dirty), (SELECT count(*) FROM pg_sluice.obligation),
       (SELECT count(*) FROM pg_sluice.column_obligation), (SELECT count(*) FROM pg_sluice.schema_change),
       (SELECT count(*) FROM pg_sluice.element), (SELECT max(step_id) FROM pg_sluice.schema_step)
"""


@pytest.fixture
def session(gateway: Server, schema: str) -> Iterator[Session]:
    session = Session(gateway, schema, messages=True)
    yield session
    session.connection.close()


def _answer(session: Session, schema: str, statement: str) -> list[str]:
    try:
        lines = [row[0] for row in session.connection.execute(statement.encode()).fetchall()]
    except psycopg.Error as error:
        lines = [f"ERROR {error.sqlstate} {error.diag.message_primary}"]
    # How large a file is depends on who has written it.
    return [re.sub(r"\d+ bytes", "… bytes", line).replace(schema, "{schema}") for line in lines]


def test_every_operation(gateway: Server, gateway_process: GatewayProcess, session: Session, schema: str) -> None:
    text = _GOLDEN.read_text()
    head, _, rest = text.partition("\n\n")
    setup = [line for line in head.splitlines() if not line.startswith("--")]
    for statement in setup:
        session.connection.execute(statement.replace("{schema}", schema).encode())
    statements = [line for line in rest.splitlines() if line and not line.startswith(" ")]
    before = _everything(gateway, gateway_process, schema)
    found = [
        line for each in statements for line in (each, *(f"  {said}" for said in _answer(session, schema, each)), "")
    ]
    assert "\n".join(found).rstrip() == rest.rstrip()
    assert _everything(gateway, gateway_process, schema) == before


def _everything(server: Server, process: GatewayProcess, schema: str) -> tuple[object, ...]:
    """What there is of a schema, and of changes at work."""
    dumped = server.run(binaries() / "pg_dump", "--schema-only", "--schema", schema).stdout
    lines = [line for line in dumped.splitlines() if "restrict" not in line]
    with psycopg.connect(process.catalog_url) as catalog:
        files = sorted(path.name for path in process.data_dir.glob(f"lake/{schema}/**/*.parquet"))
        return lines, files, catalog.execute(_LEFT).fetchone()


@pytest.fixture
def table(session: Session) -> Session:
    session.execute("CREATE TABLE t (id integer, n integer)")
    session.execute("INSERT INTO t VALUES (1, 10), (2, 20)")
    return session


def test_json(table: Session) -> None:
    [[text]] = table.connection.execute("EXPLAIN (FORMAT JSON) ALTER TABLE t ADD CONSTRAINT c CHECK (n > 0)").fetchall()
    [found] = text if isinstance(text, list) else json.loads(text)
    [change] = found["Plan"]["Plans"]
    assert change["States"] == ["ABSENT", "CHECK", "VALIDATE", "PUBLIC"]
    assert change["Data Looked At"]["Files"] == 1
    assert change["Data Looked At"]["Rows"] == 2
    assert [step["Rows Looked At"] for step in change["Steps"]] == [False, True, False]


def test_in_a_block_it_sees_what_the_block_has_done(table: Session) -> None:
    table.execute("BEGIN")
    table.execute("ALTER TABLE t ADD y integer")
    table.execute("INSERT INTO t VALUES (3, 30, 300)")
    for change in ("ALTER TABLE t ADD CHECK (y > 0)", "CREATE UNIQUE INDEX once ON t (y)"):
        said = "\n".join(row[0] for row in table.connection.execute(f"EXPLAIN {change}".encode()).fetchall())
        assert "ABSENT → CREATED → PUBLIC" in said
        assert "2 files, 3 rows" in said
        assert "committed at once" in said
    assert table.execute("SELECT sum(y) FROM t") == "(300,)"
    assert table.execute("COMMIT") == "COMMIT"
    assert table.execute("SELECT id, n, y FROM t WHERE y IS NOT NULL") == "(3, 30, 300)"


def test_prepared_and_told_where_it_is_wrong(table: Session) -> None:
    for _ in range(2):
        rows = table.connection.execute("EXPLAIN ALTER TABLE t ADD z integer", prepare=True).fetchall()
        assert rows[1] == (f'  ->  Add Column "z" on {table.execute("SELECT current_schema()")[2:-3]}.t',)
    with pytest.raises(psycopg.errors.UndefinedObject) as raised:
        table.connection.execute("EXPLAIN ALTER TABLE t ADD z nosuch")
    assert raised.value.diag.statement_position == str(len("EXPLAIN ALTER TABLE t ADD z ") + 1)


def test_while_it_waits_for_a_lock_nobody_waits_for_it(gateway: Server, table: Session, schema: str) -> None:
    other, third = (Session(gateway, schema, messages=True) for _ in range(2))
    try:
        table.execute("BEGIN")
        table.execute("DECLARE c CURSOR FOR SELECT * FROM t")
        explaining = other.begin("EXPLAIN ALTER TABLE t ADD z integer")
        third.execute("SET statement_timeout = '20s'")
        for number in range(10):
            assert third.execute(f"INSERT INTO t VALUES ({number}, 1)") == "INSERT 0 1"
        assert not explaining.done()
        other.connection.cancel()
        assert explaining.result(60).startswith("ERROR 57014")
        table.execute("COMMIT")
        assert "Add Column" in other.execute("EXPLAIN ALTER TABLE t ADD z integer")
    finally:
        other.connection.close()
        third.connection.close()
