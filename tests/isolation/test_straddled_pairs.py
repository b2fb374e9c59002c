"""Each kind of transaction straddles each simple change, and compound ones at random.

Where the table of compatibility lets a transaction commit, the lake is as if the change had come after it: as in
PostgreSQL, where the change waits. Where it does not, no row is left of the transaction.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import psycopg
import pytest

from catalog.schema.compatibility import RULES
from planner.schema.change_kinds import KIND_OF
from tests.servers import Server

_SETUP = """
CREATE TYPE mood AS ENUM ('low', 'high');
CREATE FUNCTION fired() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE TABLE t (
    id integer PRIMARY KEY, checked integer CONSTRAINT small CHECK (checked < 1000), indexed integer,
    filled integer NOT NULL DEFAULT 5, bare integer, computed integer GENERATED ALWAYS AS (id * 2) STORED,
    other integer DEFAULT 3, needed integer NOT NULL, words varchar(9), m mood, gone integer, once integer);
ALTER TABLE t ADD CONSTRAINT late CHECK (id < 100) NOT VALID;
CREATE INDEX by_indexed ON t (indexed);
CREATE UNIQUE INDEX by_once ON t (once);
CREATE VIEW v AS SELECT * FROM t;
INSERT INTO t (id, checked, indexed, needed, words, m, gone, once)
    SELECT n, n * 10, n, 1, 'w' || n, 'low', n, n FROM generate_series(1, 6) n
"""
# The kinds of transactions, each about rows of its own.
_TRANSACTIONS = {
    "reads": "SELECT count(*) FROM {t}",
    "inserts": "INSERT INTO {t} (id, checked, needed, words, m) VALUES (9, 90, 1, 'nine', 'high')",
    "updates": "UPDATE {t} SET checked = checked + 1, words = 'new' WHERE id = 1",
    "deletes": "DELETE FROM {t} WHERE id = 2",
    "merges": "MERGE INTO {t} USING (VALUES (3), (8)) s (id) ON {t}.id = s.id"
    " WHEN MATCHED THEN UPDATE SET indexed = 33 WHEN NOT MATCHED THEN INSERT (id, needed) VALUES (s.id, 8)",
    "locks": "SELECT id FROM {t} WHERE id = 4 FOR UPDATE",
}
_VIEWED = frozenset({"reads", "inserts", "updates", "deletes"})
# What is to be seen of simple changes, by their kinds; several of one kind have a word behind it.
_CHANGES = {
    "drop table": "DROP TABLE t CASCADE",
    "rename table": "ALTER TABLE t RENAME TO renamed",
    "move table": "ALTER TABLE t SET SCHEMA {schema}_2",
    "change policies": "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
    "change triggers": "CREATE TRIGGER fired BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION fired()",
    "replace view": "CREATE OR REPLACE VIEW v AS SELECT * FROM t WHERE id > 0",
    "add column": "ALTER TABLE t ADD COLUMN added integer DEFAULT 4",
    "add column, beside a wider type": "ALTER TABLE t ADD COLUMN added text NOT NULL DEFAULT 'it''s', ADD yes boolean"
    " DEFAULT true, ADD COLUMN on_day date DEFAULT '2024-02-03', ALTER COLUMN bare TYPE bigint",
    "add computed column": "ALTER TABLE t ADD COLUMN numbered integer GENERATED ALWAYS AS (id + 1) STORED",
    "rewrite column": "ALTER TABLE t ALTER COLUMN indexed TYPE text",
    "rewrite column, beside a new one": "ALTER TABLE t ALTER COLUMN indexed TYPE text, ADD COLUMN added integer"
    " NOT NULL DEFAULT 4",
    "drop column": "ALTER TABLE t DROP COLUMN gone CASCADE",
    "rename column": "ALTER TABLE t RENAME COLUMN words TO phrases",
    "drop not null": "ALTER TABLE t ALTER COLUMN needed DROP NOT NULL",
    "set not null": "ALTER TABLE t ALTER COLUMN filled SET NOT NULL, ALTER COLUMN needed SET NOT NULL,"
    " ALTER COLUMN checked SET NOT NULL",
    "set default": "ALTER TABLE t ALTER COLUMN bare SET DEFAULT 1",
    "change default": "ALTER TABLE t ALTER COLUMN other SET DEFAULT 4",
    "drop default": "ALTER TABLE t ALTER COLUMN other DROP DEFAULT",
    "widen type": "ALTER TABLE t ALTER COLUMN bare TYPE bigint",
    "widen type, checked": "ALTER TABLE t ALTER COLUMN checked TYPE bigint",
    "widen type, indexed": "ALTER TABLE t ALTER COLUMN indexed TYPE bigint",
    "widen type, unique": "ALTER TABLE t ALTER COLUMN once TYPE bigint",
    "widen type, with a default": "ALTER TABLE t ALTER COLUMN filled TYPE bigint",
    "add label": "ALTER TYPE mood ADD VALUE 'middle'",
    "change type": "ALTER TABLE t ALTER COLUMN words TYPE varchar(4)",
    "add constraint": "ALTER TABLE t ADD CONSTRAINT positive CHECK (id > 0)",
    "check constraint": "ALTER TABLE t ADD CONSTRAINT positive CHECK (id > 0) NOT VALID",
    "publish constraint": "ALTER TABLE t VALIDATE CONSTRAINT late",
    "rename constraint": "ALTER TABLE t RENAME CONSTRAINT small TO little",
    "drop constraint": "ALTER TABLE t DROP CONSTRAINT small",
    "add index": "CREATE UNIQUE INDEX by_words ON t (words)",
    "drop index": "DROP INDEX by_once",
}
# One is of a table that no transaction has used before, the other of one without rows (tests/golden/straddling).
_ELSEWHERE = frozenset({"create table", "add required column"})
# PostgreSQL refuses these while a view has the column.
_WITHOUT_VIEW = ("rewrite column", "add column", "widen type", "change type")
# Clauses of compound changes, each about another part.
_CLAUSES = {
    clause: kind
    for kind, clause in (
        ("add column", "ADD COLUMN added integer DEFAULT 4"),
        ("drop not null", "ALTER COLUMN needed DROP NOT NULL"),
        ("widen type", "ALTER COLUMN checked TYPE bigint"),
        ("widen type", "ALTER COLUMN filled TYPE bigint"),
        ("widen type", "ALTER COLUMN words TYPE text"),
        ("check constraint", "ADD CONSTRAINT positive CHECK (id > 0) NOT VALID"),
        ("drop constraint", "DROP CONSTRAINT late"),
        ("change policies", "ENABLE ROW LEVEL SECURITY"),
        ("set default", "ALTER COLUMN bare SET DEFAULT 1"),
        ("drop default", "ALTER COLUMN other DROP DEFAULT"),
        ("drop column", "DROP COLUMN gone"),
    )
}
_SEEDS = 12
_TABLES = (
    "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' ORDER BY 1"
)


def _kind(name: str) -> str:
    return name.split(",", maxsplit=1)[0]


@dataclass
class _Side:
    """A server, with a schema that has the tables; what was made there goes with it."""

    server: Server
    schema: str

    def connect(self, *, autocommit: bool = True) -> psycopg.Connection:
        return psycopg.connect(
            self.server.url, autocommit=autocommit, options=f"-csearch_path={self.schema} -cstatement_timeout=60s"
        )

    def run(self, *statements: str) -> None:
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement.replace("{schema}", self.schema).encode())

    def rows(self) -> dict[str, list[tuple[object, ...]]]:
        """All rows of all tables, with their columns."""
        with self.connect() as connection:
            tables = [name for [name] in connection.execute(_TABLES)]
            return {name: sorted(map(_named, _of(connection, name))) for name in tables}


def _of(connection: psycopg.Connection, table: str) -> Iterator[dict[str, object]]:
    cursor = connection.execute(f"SELECT * FROM {table}".encode())
    names = [column.name for column in cursor.description or ()]
    return (dict(zip(names, row, strict=True)) for row in cursor)


def _named(row: dict[str, object]) -> tuple[object, ...]:
    return tuple(f"{name}={value}" for name, value in row.items())


@contextmanager
def _side(server: Server, schema: str, *, view: bool) -> Iterator[_Side]:
    with psycopg.connect(server.url, autocommit=True) as connection:
        for each in (schema, f"{schema}_2"):
            connection.execute(f"CREATE SCHEMA {each}".encode())
        try:
            side = _Side(server, schema)
            with side.connect() as making:
                making.execute(_SETUP.encode())
                if not view:
                    making.execute("DROP VIEW v")
            yield side
        finally:
            connection.execute(f"DROP SCHEMA {schema}, {schema}_2 CASCADE".encode())


def _straddle(lake: _Side, oracle: _Side, names: Sequence[str], relation: str, changes: Sequence[str]) -> list[str]:
    """Have transactions of these names straddle the changes; return those that commit. What becomes of the rows is what
    PostgreSQL makes of these, and then of the changes."""
    with ExitStack() as stack:
        sessions = {name: stack.enter_context(lake.connect(autocommit=False)) for name in names}
        for name, session in sessions.items():
            session.execute(_TRANSACTIONS[name].replace("{t}", relation).encode())
        lake.run(*changes)
        committed = []
        for name, session in sessions.items():
            try:
                session.commit()
            except psycopg.errors.SerializationFailure:
                session.rollback()
            else:
                committed.append(name)
    oracle.run(*(_TRANSACTIONS[name].replace("{t}", relation) for name in committed), *changes)
    assert lake.rows() == oracle.rows()
    return committed


def test_each_kind_is_straddled() -> None:
    assert {_kind(name) for name in _CHANGES} | _ELSEWHERE == set(KIND_OF) | {"widen type"}


@pytest.mark.turns
@pytest.mark.parametrize("name", _CHANGES)
def test_each_transaction_straddles_each_simple_change(gateway: Server, oracle: Server, schema: str, name: str) -> None:
    kind = _kind(name)
    relation, names = ("v", sorted(_VIEWED)) if kind == "replace view" else ("t", sorted(_TRANSACTIONS))
    view = kind not in _WITHOUT_VIEW
    with (
        _side(gateway, f"{schema}_pairs", view=view) as lake,
        _side(oracle, f"{schema}_pairs", view=view) as postgres,
    ):
        committed = _straddle(lake, postgres, names, relation, [_CHANGES[name]])
    assert committed == (names if RULES[kind].forward_compatible else [])


@pytest.mark.turns
@pytest.mark.parametrize("seed", range(_SEEDS))
def test_transactions_straddle_compound_changes(gateway: Server, oracle: Server, schema: str, seed: int) -> None:
    """In one statement, in several, or in those of a block."""
    chosen = random.Random(seed)
    clauses = chosen.sample(sorted(_CLAUSES), chosen.randint(2, 4))
    apart = [f"ALTER TABLE t {clause}" for clause in clauses]
    changes = chosen.choice([[f"ALTER TABLE t {', '.join(clauses)}"], apart, ["BEGIN", *apart, "COMMIT"]])
    names = sorted(chosen.sample(sorted(_TRANSACTIONS), 3))
    with (
        _side(gateway, f"{schema}_compound", view=False) as lake,
        _side(oracle, f"{schema}_compound", view=False) as postgres,
    ):
        committed = _straddle(lake, postgres, names, "t", changes)
    assert committed == (names if all(RULES[_CLAUSES[each]].forward_compatible for each in clauses) else []), changes
