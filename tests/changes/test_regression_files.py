"""Files like PostgreSQL's regression files: read as psql reads them, and the same on both servers."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.changes.regression_files import Comparison, Side, Step, steps
from tests.servers import Server

_FILE = """
-- Statements of all kinds; what is in this file is what regression files have.
\\set ECHO none
CREATE TABLE {schema}.t (a integer PRIMARY KEY, b text DEFAULT 'x;y');
COPY {schema}.t FROM stdin;
1\tone
2\t\\N
\\.
CREATE FUNCTION {schema}.f() RETURNS integer LANGUAGE sql
  BEGIN ATOMIC
    SELECT 1;
    SELECT 2;
  END;
ALTER TABLE {schema}.t ADD CHECK (a > 1); -- fails
ALTER TABLE {schema}.t ADD c integer NOT NULL DEFAULT 7, ALTER a TYPE bigint;
INSERT INTO {schema}.t VALUES (3), (1);
INSERT INTO {schema}.t VALUES (3) \\g
CREATE TABLE {schema}.u () INHERITS ({schema}.t);
SELECT * FROM :unknown;
SELECT * FROM {schema}.t ORDER BY a;
COPY {schema}.t TO stdout;
SELECT {schema}.f() \\gset
ALTER TABLE {schema}.t DROP COLUMN b; SELECT * FROM {schema}.t;
DO $$ BEGIN RAISE NOTICE 'said'; END $$;
DROP TABLE {schema}.t;
"""


@pytest.fixture(name="sides")
def _sides(gateway: Server, oracle: Server) -> Iterator[tuple[Side, Side]]:
    sides = Side(gateway.url), Side(oracle.url)
    yield sides
    for side in sides:
        side.close()


def test_steps() -> None:
    found = list(steps(_FILE.replace("{schema}", "s")))
    assert found[1] == Step("COPY s.t FROM stdin", "1\tone\n2\t\\N\n")
    words = "CREATE COPY CREATE ALTER ALTER INSERT INSERT CREATE SELECT COPY SELECT ALTER SELECT DO DROP"
    assert " ".join(step.sql.split()[0] for step in found) == words
    assert found[2].sql.endswith("END")


@pytest.mark.parametrize("block", [4, *(pytest.param(block, marks=pytest.mark.soak) for block in (0, 1, 100))])
def test_the_same(sides: tuple[Side, Side], gateway: Server, oracle: Server, schema: str, block: int) -> None:
    with psycopg.connect(oracle.url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
    try:
        comparison = Comparison(*sides, block)
        comparison.run(_FILE.replace("{schema}", schema))
    finally:
        with psycopg.connect(oracle.url, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {schema} CASCADE".encode())
    assert comparison.different == []
    assert comparison.compared >= 14
    assert [(what[:8], times) for what, times in comparison.refused.items()] == [("0A000 IN", 1)]


def test_a_difference_is_found(sides: tuple[Side, Side]) -> None:
    """Each server has a port of its own."""
    comparison = Comparison(*sides)
    comparison.run("SELECT 1;\nSHOW port;\nSELECT nothing;")
    [different] = comparison.different
    assert different.startswith("SHOW port\n< ")
