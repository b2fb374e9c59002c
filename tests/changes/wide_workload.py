"""Random changes as in `workload`, and beside them those of indexes, materialized views, sequences, enumerations,
domains, comments and privileges.

By hand, long: `python -m tests.changes.wide_workload GATEWAY_URL POSTGRES_URL --seed 1 --seeds 100 --statements 200`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from tests.changes.workload import _VALUES_OF, Workload, by_hand, run

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
