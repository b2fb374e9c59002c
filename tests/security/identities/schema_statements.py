"""Random schema changes, and maintenance."""

from __future__ import annotations

from tests.security.identities.objects import CLIENT, KEEPER, MAKER, OWNER, THIRD
from tests.security.identities.row_statements import RowStatements
from tests.security.identities.step import Step


class SchemaStatements(RowStatements):
    """By who owns the tables, or may maintain them."""

    def _literal_condition(self) -> str:
        return f"id <> ALL ('{{88}}'::{self.world.schema}.amount[])"

    def _steady(self) -> list[str]:
        return [each.name for each in self.world.functions.made if each.use == "index of t"]

    def _add_column(self) -> str:
        self.last_name += 1
        name, function = f"c{self.last_name}", self.chance.choice(self.world.later_values)
        schema = self.world.schema
        kind = self.chance.choice(
            (
                f"integer DEFAULT {function}(1)",
                f"{schema}.amount DEFAULT 3",
                f"{schema}.amount",
                f"integer GENERATED ALWAYS AS ({self._steady()[0]}(id)) STORED",
                f"integer DEFAULT {function}(1) CHECK ({self.chance.choice(self.world.later_conditions)}({name}))",
                f"integer DEFAULT {function}((random() * 9)::integer)",
                f"{schema}.mood DEFAULT 'ok'",
            )
        )
        return f"ALTER TABLE {self._t} ADD COLUMN {name} {kind}"

    def add_column(self) -> Step:
        return Step(OWNER, "ADD COLUMN", (self._add_column(),))

    def _change_type(self) -> str:
        function, schema = self.chance.choice(self.world.later_values), self.world.schema
        return self.chance.choice(
            (
                f"ALTER TABLE {self._t} ALTER COLUMN n TYPE bigint USING {function}(id)",
                f"ALTER TABLE {self._t} ALTER COLUMN n TYPE integer USING {function}(id)",
                f"ALTER TABLE {self._t} ALTER COLUMN m TYPE text",
                f"ALTER TABLE {self._t} ALTER COLUMN n TYPE {schema}.amount",
                f"ALTER TABLE {self._t} ALTER COLUMN d TYPE integer USING {function}(d)",
                f"ALTER TABLE {self._t} ALTER COLUMN m TYPE integer USING m::integer",
            )
        )

    def change_type(self) -> Step:
        table = self._name()
        return Step(
            OWNER,
            "ALTER TYPE",
            (self._change_type(),)
            if self.chance.random() < 0.4
            else (
                f"CREATE TABLE {table} AS SELECT id, n, d, m FROM {self._t}",
                self._change_type().replace(f"{self._t} ", f"{table} "),
            ),
        )

    def _add_check(self) -> str:
        condition = self.chance.choice(
            (f"{self.chance.choice(self.world.later_conditions)}(id)", self._literal_condition())
        )
        return f"ALTER TABLE {self._t} ADD CHECK ({condition})"

    def add_check(self) -> Step:
        return Step(OWNER, "ADD CHECK", (self._add_check(),))

    def validate(self) -> Step:
        self.last_name += 1
        name = f"k{self.last_name}"
        add = self._add_check().replace("ADD CHECK", f"ADD CONSTRAINT {name} CHECK")
        return Step(OWNER, "VALIDATE", (f"{add} NOT VALID", f"ALTER TABLE {self._t} VALIDATE CONSTRAINT {name}"))

    def not_null(self) -> Step:
        return Step(
            OWNER,
            "SET NOT NULL",
            (
                f"ALTER TABLE {self._t} ALTER COLUMN d SET NOT NULL",
                f"ALTER TABLE {self._t} ALTER COLUMN d DROP NOT NULL",
            ),
        )

    def _make_index(self) -> str:
        key = self.chance.choice(
            (f"({self._steady()[0]}(id))", "n", f"(({self._literal_condition()}))", f"({self._steady()[0]}(2) + id)")
        )
        where = self.chance.choice(("", f"WHERE {self._steady()[0]}(id) > 0", f"WHERE {self._literal_condition()}"))
        return f"INDEX CONCURRENTLY ON {self._t} ({key}) {where}"

    def make_index(self) -> Step:
        concurrently = self.chance.choice(("", "CONCURRENTLY"))
        unique = self.chance.choice(("", "", "UNIQUE "))
        return Step(
            OWNER, "CREATE INDEX", (f"CREATE {unique}{self._make_index().replace('CONCURRENTLY', concurrently)}",)
        )

    def change_in_block(self) -> Step:
        changes = [
            self.chance.choice(
                (
                    self._add_column,
                    self._change_type,
                    self._add_check,
                    lambda: f"CREATE {self._make_index().replace('CONCURRENTLY', '')}",
                )
            )()
            for _ in range(self.chance.randrange(1, 3))
        ]
        end = self.chance.choice(("COMMIT", "COMMIT", "ROLLBACK"))
        return Step(OWNER, "changes of schemas in a block", ("BEGIN", *changes, *self._changes(1), end))

    def refresh(self) -> Step:
        name = self.world.materialized[0]
        concurrently = self.chance.choice(("", "", "CONCURRENTLY"))
        return Step(
            self.chance.choice((OWNER, THIRD, CLIENT, KEEPER)),
            "REFRESH",
            (f"REFRESH MATERIALIZED VIEW {concurrently} {name}",),
        )

    def alike(self) -> Step:
        name = self._name()
        return Step(
            OWNER,
            "LIKE",
            (
                f"CREATE TABLE {name} (LIKE {self._t} INCLUDING ALL)",
                f"INSERT INTO {name} (id, d) SELECT id, d FROM {self._t}",
                f"INSERT INTO {name} (id, d) VALUES (-1, 2)",
            ),
        )

    def change_domain(self) -> Step:
        self.last_name += 1
        name, schema = f"k{self.last_name}", self.world.schema
        function = self.chance.choice(self.world.later_conditions)
        return Step(
            MAKER,
            "ALTER DOMAIN",
            (
                f"ALTER DOMAIN {schema}.amount ADD CONSTRAINT {name} CHECK ({function}(VALUE))",
                f"ALTER DOMAIN {schema}.amount DROP CONSTRAINT {name}",
            ),
        )

    def vacuum(self) -> Step:
        return Step(
            self.chance.choice((OWNER, KEEPER)),
            "VACUUM",
            (f"VACUUM {self.chance.choice(('', 'FULL', '(ANALYZE)'))} {self._t}",),
        )

    def analyze(self) -> Step:
        return Step(self.chance.choice((OWNER, KEEPER)), "ANALYZE", (f"ANALYZE {self._t}",))

    def cluster(self) -> Step:
        return Step(
            self.chance.choice((OWNER, KEEPER)),
            "CLUSTER",
            (f"CLUSTER {self._t} USING t_pkey", f"REINDEX TABLE {self._t}"),
        )

    def truncate(self) -> Step:
        return Step(OWNER, "TRUNCATE", (f"TRUNCATE {self._t}", f"INSERT INTO {self._t} (id, d) VALUES (1, 1), (2, 2)"))
