"""The text of CREATE TABLE without its foreign keys; PostgreSQL confirms that nothing else is lost."""

from __future__ import annotations

import psycopg
import pytest

from catalog.postgres.embedded import EmbeddedPostgres
from planner.syntax.create_table_text import without_references

_CONSTRAINTS = """
SELECT conname, contype::text, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'c'::regclass
ORDER BY contype <> 'f', conname COLLATE "C"
"""
_COLUMNS = """
SELECT attname, format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated, pg_get_expr(adbin, adrelid)
FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE attrelid = 'c'::regclass AND attnum > 0 ORDER BY attnum
"""


@pytest.mark.parametrize(
    ("statement", "without"),
    [
        ("CREATE TABLE c (a int REFERENCES p)", "CREATE TABLE c (a int)"),
        ("CREATE TABLE c (a int REFERENCES p, b int);", "CREATE TABLE c (a int, b int)"),
        ("CREATE TABLE c (a int REFERENCES s.p(k) NOT NULL UNIQUE)", "CREATE TABLE c (a int NOT NULL UNIQUE)"),
        (
            "CREATE TABLE c (a int CONSTRAINT r REFERENCES p ON DELETE SET NULL (a), b int)",
            "CREATE TABLE c (a int, b int)",
        ),
        (
            (
                "CREATE TABLE c (a int DEFAULT 1 REFERENCES p MATCH FULL ON UPDATE NO ACTION ON DELETE SET DEFAULT"
                " DEFERRABLE INITIALLY DEFERRED CHECK (a > 0))"
            ),
            "CREATE TABLE c (a int DEFAULT 1 CHECK (a > 0))",
        ),
        ("CREATE TABLE c (a int NOT NULL REFERENCES p NOT DEFERRABLE NOT ENFORCED)", "CREATE TABLE c (a int NOT NULL)"),
        ("CREATE TABLE c (a int, FOREIGN KEY (a) REFERENCES p)", "CREATE TABLE c (a int)"),
        (
            "CREATE TABLE c (CONSTRAINT r FOREIGN KEY (a, b) REFERENCES p (x, y), a int, b int PRIMARY KEY)",
            "CREATE TABLE c (a int, b int PRIMARY KEY)",
        ),
        (
            (
                'CREATE TABLE IF NOT EXISTS c ("references" text CHECK ("references" <> \'REFERENCES p\'),'
                ' a numeric(3, 1) REFERENCES "p"."references"("x") REFERENCES p) WITH (fillfactor = 70)'
            ),
            (
                'CREATE TABLE IF NOT EXISTS c ("references" text CHECK ("references" <> \'REFERENCES p\'),'
                " a numeric(3, 1)) WITH (fillfactor = 70)"
            ),
        ),
        ("CREATE TABLE c PARTITION OF p FOR VALUES IN (1)", None),
        ("CREATE TABLE c OF p (a REFERENCES q)", None),
        ("CREATE TABLE c", None),
    ],
)
def test_text(statement: str, without: str | None) -> None:
    assert without_references(statement) == without


@pytest.mark.parametrize(
    "elements",
    [
        "a int REFERENCES p, b int NOT NULL REFERENCES p (k) ON DELETE CASCADE UNIQUE",
        "id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a int CONSTRAINT why REFERENCES p MATCH FULL DEFAULT 3",
        (
            "a int, b int DEFAULT 2 CHECK (b > a) REFERENCES p ON UPDATE SET NULL ON DELETE SET DEFAULT (b) DEFERRABLE,"
            " FOREIGN KEY (a) REFERENCES p INITIALLY DEFERRED, UNIQUE (a, b), g int GENERATED ALWAYS AS (a + b) STORED"
        ),
        "id int PRIMARY KEY, parent int REFERENCES c, CHECK (parent < id), k int REFERENCES p NOT ENFORCED NOT NULL",
    ],
)
def test_nothing_else_is_lost(postgres: EmbeddedPostgres, elements: str) -> None:
    with psycopg.connect(postgres.dsn) as connection:
        connection.execute("CREATE SCHEMA made; SET LOCAL search_path = made; CREATE TABLE p (k int PRIMARY KEY)")
        statement = f"CREATE TABLE c ({elements})"
        with connection.transaction(force_rollback=True):
            connection.execute(statement.encode())
            constraints = connection.execute(_CONSTRAINTS).fetchall()
            columns = connection.execute(_COLUMNS).fetchall()
        without = without_references(statement)
        assert without is not None
        connection.execute(without.encode())
        references = [constraint for constraint in constraints if constraint[1] == "f"]
        assert references
        assert connection.execute(_CONSTRAINTS).fetchall() == constraints[len(references) :]
        adding = ", ".join(f"ADD CONSTRAINT {name} {definition}" for name, _, definition in references)
        connection.execute(f"ALTER TABLE c {adding}".encode())
        assert connection.execute(_CONSTRAINTS).fetchall() == constraints
        assert connection.execute(_COLUMNS).fetchall() == columns
        connection.rollback()
