"""Random changes as in `workload`, with all other kinds beside them.

These are: indexes, views and materialized ones, schemas, sequences, identity columns, enumerations, domains, functions
and their changes, maintenance, comments, privileges.

By hand, long: `python -m tests.changes.wide_workload GATEWAY_URL POSTGRES_URL --seed 1 --seeds 100 --statements 200`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from tests.changes.workload import _VALUES_OF, OTHER_SCHEMAS, Workload, by_hand, run

_INDEXES = ("i1", "i2", "i3")
_VIEWS = ("v", "w")
_LABELS = ("sad", "glad", "so so", "blue")
_ORDERS = ("", "", " DESC", " NULLS FIRST", " DESC NULLS LAST")


@dataclass
class WideWorkload(Workload):
    """`statement` gives the next one, of any kind."""

    values_of: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **_VALUES_OF,
        "mood": tuple(f"'{label}'" for label in _LABELS),
        "size": ("1", "7", "-3"),
    }

    def _change(self) -> str:
        if not self._likely(0.6):
            return super()._change()
        table = self.table()
        return self.chance.choice(
            (
                self._index(table),
                self._index(table),
                self._of_index(table),
                self._table(table),
                self._column_of_type(table),
                self._column_of_type(table),
                self._generated(table),
                self._view(table),
                self._materialized(table),
                self._materialized(table),
                self._sequence(),
                self._type(),
                self._type(),
                self._said(table),
                self._schema(table),
                self._identity(table),
                self._deferrable(table),
                self._function(table),
                self._in_function(table),
                self._kept_up(table),
            )
        )

    def _rows(self) -> str:
        if self._likely(0.9):
            return super()._rows()
        read = [f"SELECT count(x) FROM {self.chance.choice(_VIEWS)}", "SELECT x FROM m"]
        return self.chance.choice([*read, "SELECT nextval('q')"] if self.numbered else read)

    def _cascade(self) -> str:
        return " CASCADE" if self._likely(0.3) else ""

    def _index(self, table: str) -> str:
        key, second = self.column(table), self.column(table)
        order = self.chance.choice(_ORDERS)
        keys = self.chance.choice(
            (f"{key}{order}", f"{key}{order}", f"{key}, {second}{order}", f"(length({key}::text))")
        )
        include = f" INCLUDE ({second})" if self._likely(0.2) else ""
        where = f" WHERE {second} IS NOT NULL" if self._likely(0.2) else ""
        unique = "UNIQUE " if self._likely(0.4) else ""
        some = "IF NOT EXISTS " if self._likely(0.1) else ""
        return f"CREATE {unique}INDEX {some}{self.chance.choice(_INDEXES)} ON {table} ({keys}){include}{where}"

    def _of_index(self, table: str) -> str:
        index = self.chance.choice(_INDEXES)
        kind = self.chance.choice(("UNIQUE", "PRIMARY KEY"))
        return self.chance.choice(
            (
                f"DROP INDEX {index}",
                f"DROP INDEX IF EXISTS {index}{self._cascade()}",
                f"ALTER INDEX {index} RENAME TO {self.chance.choice(_INDEXES)}",
                f"REINDEX INDEX {index}",
                f"REINDEX TABLE {table}",
                f"ALTER TABLE {table} ADD CONSTRAINT k1 {kind} USING INDEX {index}",
            )
        )

    def _table(self, table: str) -> str:
        name = self.chance.choice(("t1", "t2", "t3"))
        return self.chance.choice(
            (
                f"CREATE TABLE {name} (LIKE {table} INCLUDING ALL)",
                f"CREATE TABLE {name} (LIKE {table})",
                f"CREATE TABLE {name} AS SELECT * FROM {table}",
                f"CREATE TABLE {name} AS SELECT {self.column(table)} FROM {table} WITH NO DATA",
            )
        )

    def _column_of_type(self, table: str) -> str:
        type_ = self.chance.choice(("mood", "size"))
        column = self.column(table)
        return f"ALTER TABLE {table} " + self.chance.choice(
            (
                f"ADD COLUMN {self.new_column(table)} {type_}",
                f"ADD COLUMN {self.new_column(table)} {type_} DEFAULT {self._default(type_)}",
                f"ALTER COLUMN {column} TYPE {type_} USING {column}::text::{type_}",
                f"ALTER COLUMN {column} TYPE {type_} USING NULL::{type_}",
                f"ALTER COLUMN {column} TYPE text",
            )
        )

    def _generated(self, table: str) -> str:
        column = self.column(table)
        return f"ALTER TABLE {table} " + self.chance.choice(
            (
                f"ADD COLUMN {self.new_column(table)} integer GENERATED ALWAYS AS (length({column}::text)) STORED",
                f"ADD COLUMN {self.new_column(table)} boolean GENERATED ALWAYS AS ({column} IS NULL) STORED",
                f"ALTER COLUMN {column} DROP EXPRESSION IF EXISTS",
            )
        )

    def _view(self, table: str) -> str:
        view, other = self.chance.choice(_VIEWS), self.chance.choice(_VIEWS)
        query = f"SELECT {self.column(table)} AS x FROM {self.chance.choice((table, table, other))}"
        return self.chance.choice(
            (
                f"CREATE VIEW {view} AS {query}",
                f"CREATE OR REPLACE VIEW {view} AS {query}",
                f"ALTER VIEW {view} RENAME TO {other}",
                f"ALTER VIEW {view} ALTER x SET DEFAULT NULL",
                f"DROP VIEW IF EXISTS {view}{self._cascade()}",
            )
        )

    def _materialized(self, table: str) -> str:
        query = f"SELECT {self.column(table)} AS x FROM {table}"
        return self.chance.choice(
            (
                f"CREATE MATERIALIZED VIEW m AS {query}",
                f"CREATE MATERIALIZED VIEW IF NOT EXISTS m AS {query} WITH NO DATA",
                "CREATE UNIQUE INDEX i3 ON m (x)",
                "REFRESH MATERIALIZED VIEW m",
                "REFRESH MATERIALIZED VIEW CONCURRENTLY m",
                "REFRESH MATERIALIZED VIEW m WITH NO DATA",
                f"DROP MATERIALIZED VIEW m{self._cascade()}",
            )
        )

    def _sequence(self) -> str:
        return self.chance.choice(
            (
                "CREATE SEQUENCE q",
                "CREATE SEQUENCE IF NOT EXISTS q START 10",
                "ALTER SEQUENCE q RESTART",
                "ALTER SEQUENCE q RESTART WITH 100",
                "ALTER SEQUENCE q INCREMENT BY 3",
                "ALTER SEQUENCE q RENAME TO r",
                "ALTER SEQUENCE r RENAME TO q",
                "DROP SEQUENCE q",
            )
        )

    def _type(self) -> str:
        label, other = self.chance.sample(_LABELS, 2)
        valid = " NOT VALID" if self._likely(0.2) else ""
        return self.chance.choice(
            (
                "CREATE TYPE mood AS ENUM ('sad', 'glad')",
                "CREATE TYPE mood AS ENUM ('sad', 'glad')",
                f"ALTER TYPE mood ADD VALUE IF NOT EXISTS '{label}'",
                f"ALTER TYPE mood RENAME VALUE '{label}' TO '{other}'",
                f"DROP TYPE mood{self._cascade()}",
                "CREATE DOMAIN size AS integer",
                "CREATE DOMAIN size AS integer DEFAULT 7 CHECK (value > -100)",
                f"ALTER DOMAIN size ADD CONSTRAINT c1 CHECK (value < {self.chance.choice((5, 10, 1000))}){valid}",
                "ALTER DOMAIN size VALIDATE CONSTRAINT c1",
                "ALTER DOMAIN size DROP CONSTRAINT IF EXISTS c1",
                "ALTER DOMAIN size SET NOT NULL",
                "ALTER DOMAIN size DROP NOT NULL",
                f"DROP DOMAIN size{self._cascade()}",
            )
        )

    def _schema(self, table: str) -> str:
        name, other = (f"{self.schema}_{suffix}" for suffix in self.chance.sample(OTHER_SCHEMAS, 2))
        return self.chance.choice(
            (
                f"CREATE SCHEMA {name}",
                f"CREATE SCHEMA IF NOT EXISTS {name}",
                f"ALTER SCHEMA {name} RENAME TO {other}",
                f"DROP SCHEMA {name}{self._cascade()}",
                f"ALTER TABLE {table} SET SCHEMA {name}",
                f"ALTER TABLE {name}.t1 SET SCHEMA {self.schema}",
                f"INSERT INTO {name}.t1 SELECT * FROM {table}",
            )
        )

    def _identity(self, table: str) -> str:
        column, computed = self.column(table), "((random() * 0)::integer)"
        plain = (
            f"ADD COLUMN {self.new_column(table)} integer DEFAULT {computed}",
            f"ALTER COLUMN {column} SET EXPRESSION AS (length({self.column(table)}::text))",
            f"ALTER COLUMN {column} DROP IDENTITY IF EXISTS",
        )
        numbered = (
            f"ALTER COLUMN {column} ADD GENERATED BY DEFAULT AS IDENTITY",
            f"ALTER COLUMN {column} ADD GENERATED ALWAYS AS IDENTITY (START 50)",
            f"ALTER COLUMN {column} SET GENERATED ALWAYS",
            f"ALTER COLUMN {column} RESTART WITH 500",
        )
        return f"ALTER TABLE {table} " + self.chance.choice(plain + numbered if self.numbered else plain)

    def _deferrable(self, table: str) -> str:
        column, other = self.column(table), self.table()
        key, mode = self.column(other), self.chance.choice(("DEFERRABLE", "DEFERRABLE INITIALLY DEFERRED"))
        return self.chance.choice(
            (
                f"ALTER TABLE {table} ADD CONSTRAINT k1 UNIQUE ({column}) {mode}",
                f"ALTER TABLE {table} ADD CONSTRAINT k2 FOREIGN KEY ({column}) REFERENCES {other} ({key}) {mode}",
                f"ALTER TABLE {table} ALTER CONSTRAINT {self.constraint(table)} {mode}",
                "SET CONSTRAINTS ALL DEFERRED",
                "SET CONSTRAINTS ALL IMMEDIATE",
                f"TRUNCATE {table} RESTART IDENTITY CASCADE",
            )
        )

    def _function(self, table: str) -> str:
        column = self.column(table)
        return self.chance.choice(
            (
                "CREATE OR REPLACE FUNCTION f(integer) RETURNS integer LANGUAGE sql IMMUTABLE RETURN $1 * 2",
                "CREATE FUNCTION f(integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1 * 2; END'",
                f"DROP FUNCTION IF EXISTS f(integer){self._cascade()}",
                f"ALTER TABLE {table} ADD CONSTRAINT k4 CHECK (f(length({column}::text)) < 50)",
                f"ALTER TABLE {table} ADD COLUMN {self.new_column(table)} integer DEFAULT f(21)",
                f"ALTER TABLE {table} ALTER COLUMN {column} TYPE integer USING f(length({column}::text))",
            )
        )

    def _in_function(self, table: str) -> str:
        change = f"ALTER TABLE {table} {self._clause(table)}"
        some = f"IF EXISTS (SELECT FROM pg_tables WHERE schemaname = '{self.schema}' AND tablename = '{table}') THEN"
        return self.chance.choice(
            (
                f"DO $$ BEGIN {change}; EXCEPTION WHEN duplicate_object OR duplicate_column THEN NULL; END $$",
                f"DO $$ BEGIN {some} {change}; END IF; END $$",
                f"DO $$ BEGIN {self._index(table)}; END $$",
            )
        )

    def _kept_up(self, table: str) -> str:
        return self.chance.choice(
            (
                f"VACUUM {table}",
                f"VACUUM FULL {table}",
                f"ANALYZE {table}",
                f"CLUSTER {table} USING {self.chance.choice(_INDEXES)}",
                f"CREATE INDEX CONCURRENTLY {self.chance.choice(_INDEXES)} ON {table} ({self.column(table)})",
                f"DROP INDEX CONCURRENTLY IF EXISTS {self.chance.choice(_INDEXES)}",
                f"REINDEX TABLE CONCURRENTLY {table}",
                "REINDEX SCHEMA CONCURRENTLY " + self.schema,
            )
        )

    def _said(self, table: str) -> str:
        return self.chance.choice(
            (
                f"COMMENT ON TABLE {table} IS 'said'",
                f"COMMENT ON COLUMN {table}.{self.column(table)} IS NULL",
                f"GRANT SELECT ON {table} TO PUBLIC",
                f"REVOKE ALL ON {table} FROM PUBLIC",
                f"ALTER TABLE {table} OWNER TO CURRENT_USER",
                f"CREATE STATISTICS IF NOT EXISTS s1 ON {self.column(table)}, {self.column(table)} FROM {table}",
                "DROP STATISTICS IF EXISTS s1",
            )
        )


if __name__ == "__main__":
    by_hand(__doc__, "wide", partial(run, make=WideWorkload))
