"""Random statements that read and write rows, in each way of execution."""

from __future__ import annotations

from tests.security.identities.choices import Choices
from tests.security.identities.objects import OWNER
from tests.security.identities.step import Step


class RowStatements(Choices):
    """By who may read and write the tables."""

    def select(self) -> Step:
        return Step(self._reader(), "SELECT", (self._query(),))

    def plain(self) -> Step:
        """What Spark can compute, over what has users' code in it."""
        return Step(
            self._reader(),
            "SELECT of plain columns",
            (
                self.chance.choice(
                    (
                        f"SELECT id, n, p FROM {self._t} WHERE id > 1",
                        f"SELECT n, count(*), max(id) FROM {self._t} GROUP BY n",
                        f"SELECT p, sum(n) FROM {self._t} GROUP BY p",
                    )
                ),
            ),
        )

    def view(self) -> Step:
        name = self.chance.choice((*self.world.views, *self.world.materialized))
        return Step(
            self._reader(), "SELECT of a view", (f"SELECT * FROM {name} WHERE id > {self.chance.randrange(3)}",)
        )

    def literal(self) -> Step:
        value = self.chance.choice(
            (
                f"'{{1,2}}'::{self.world.schema}.amount[]",
                f"'4'::{self.world.schema}.amount",
                f"{self.chance.choice(self.world.of_integer)}(3)",
                f"1::{self.world.schema}.mood",
                f"'ok'::{self.world.schema}.mood::text",
            )
        )
        table = self.chance.choice(("", f" FROM {self._t}"))
        return Step(self._reader(), "SELECT of a literal", (f"SELECT {value}{table}",))

    def locking(self) -> Step:
        return Step(
            self._writer(),
            "SELECT FOR UPDATE",
            (f"SELECT id, {self._value()} FROM {self._t} WHERE {self._condition()} FOR UPDATE",),
        )

    def _row(self) -> str:
        key = self._key()
        function = self.chance.choice(self.world.of_integer)
        columns = self.chance.choice(("id, d, m", "id, n, d", "id, d, p", "id"))
        given = {"id": str(key), "n": f"{function}(4)", "d": "7", "m": self.chance.choice(("'ok'", "1")), "p": "3"}
        return f"({columns}) VALUES ({', '.join(given[column] for column in columns.split(', '))})"

    def _returning(self) -> str:
        return self.chance.choice(
            ("", "", f" RETURNING id, {self._value()}", " RETURNING *", f" RETURNING {self._cast()}")
        )

    def insert(self) -> Step:
        target = self.chance.choice((self._t, self._t, self._t, self.world.views[0]))
        row = self._row() if target == self._t else f"(id, n) VALUES ({self._key()}, 1)"
        return Step(
            self._writer(),
            "INSERT",
            (f"INSERT INTO {target} {row}" + (self._returning() if target == self._t else ""),),
        )

    def insert_query(self) -> Step:
        key, amount = self._key() * 10_000, self.chance.choice(("d", "n", "3"))
        query = f"SELECT id + {key}, {amount}, m FROM {self._t} WHERE {self._condition()}"
        return Step(self._writer(), "INSERT SELECT", (f"INSERT INTO {self._t} (id, d, m) {query}{self._returning()}",))

    def upsert(self) -> Step:
        function = self.chance.choice(self.world.of_integer)
        action = self.chance.choice(("NOTHING", f"UPDATE SET n = {function}(5)", "UPDATE SET d = excluded.d + 1"))
        insert = f"INSERT INTO {self._t} (id, d) VALUES (1, 9), ({self._key()}, 9)"
        return Step(self._writer(), "ON CONFLICT", (f"{insert} ON CONFLICT (id) DO {action}{self._returning()}",))

    def _set(self) -> str:
        return self.chance.choice(
            (
                "n = n + 1",
                f"n = {self._value()}",
                "d = d + 1",
                "m = 'ok'",
                "m = 1",
                "n = DEFAULT",
                "p = DEFAULT",
                "d = n, m = 'sad'",
            )
        )

    def update(self) -> Step:
        target = self.chance.choice((self._t, self._t, self._t, self.world.views[0]))
        change = self._set() if target == self._t else "n = n + 1"
        condition = self._condition() if target == self._t else "id > 1"
        returning = self._returning() if target == self._t else ""
        return Step(self._writer(), "UPDATE", (f"UPDATE {target} SET {change} WHERE {condition}{returning}",))

    def delete(self) -> Step:
        return Step(
            self._writer(),
            "DELETE",
            (f"DELETE FROM {self._t} WHERE id > 110 AND {self._condition()}{self._returning()}",),
        )

    def merge(self) -> Step:
        action = self.chance.choice((f"UPDATE SET {self._set().replace('(id)', '(t.id)')}", "DELETE"))
        statement = (
            f"MERGE INTO {self._t} AS t USING {self.world.schema}.parent AS s ON t.id = s.id + 2 "
            f"WHEN MATCHED THEN {action} "
            f"WHEN NOT MATCHED THEN INSERT (id, d) VALUES (s.id + {self._key() * 1000}, 2)"
        )
        return Step(self._writer(), "MERGE", (statement,))

    def key_action(self) -> Step:
        parent = f"{self.world.schema}.parent"
        statement = self.chance.choice(
            (
                f"UPDATE {parent} SET id = id + 100 WHERE id = {self.chance.randrange(1, 5)}",
                f"DELETE FROM {parent} WHERE id <> 3 AND id % 2 = {self.chance.randrange(2)}",
            )
        )
        return Step(self._writer(), "foreign key's action", (f"INSERT INTO {parent} VALUES ({self._key()})", statement))

    def copy_in(self) -> Step:
        rows = "".join(f"{self._key()}\t{self.chance.randrange(9)}\tok\n" for _ in range(3)).encode()
        return Step(self._writer(), "COPY FROM", (f"COPY {self._t} (id, d, m) FROM STDIN",), rows=rows)

    def copy_out(self) -> Step:
        source = self.chance.choice(
            (f"{self._t} (id, d, m)", f"({self._query()})", f"(SELECT * FROM {self.world.views[0]})")
        )
        return Step(self._reader(), "COPY TO", (f"COPY {source} TO STDOUT",))

    def cursor(self) -> Step:
        options = self.chance.choice(("", "SCROLL", "NO SCROLL"))
        hold = self.chance.choice(("", "WITH HOLD"))
        source = self.chance.choice((self._query(), f"SELECT * FROM {self.world.views[0]}"))
        end = ("CLOSE c",) if hold else ()
        return Step(
            self._reader(),
            "cursor",
            ("BEGIN", f"DECLARE c {options} CURSOR {hold} FOR {source}", "FETCH 2 FROM c", "COMMIT", *end),
        )

    def prepared(self) -> Step:
        statement = self.chance.choice(
            (self._query(), f"INSERT INTO {self._t} {self._row()}", f"UPDATE {self._t} SET {self._set()}")
        )
        return Step(self._writer(), "EXECUTE", (f"PREPARE p AS {statement}", "EXECUTE p", "DEALLOCATE p"))

    def extended(self) -> Step:
        function = self.chance.choice(self.world.of_integer)
        statement = self.chance.choice(
            (
                f"SELECT id, {function}(%s::integer) FROM {self._t}",
                f"UPDATE {self._t} SET d = %s::integer WHERE {self._condition()}",
                f"SELECT id FROM {self._t} WHERE {function}(%s::integer) = 1",
            )
        )
        return Step(self._writer(), "extended protocol", (statement,), values=(self.chance.randrange(5),))

    def explain(self) -> Step:
        statement = self.chance.choice(
            (
                self._query(),
                *self.plain().statements * 2,
                f"UPDATE {self._t} SET {self._set()}",
                f"INSERT INTO {self._t} {self._row()}",
                f"SELECT * FROM {self.world.views[0]}",
            )
        )
        return Step(self._writer(), "EXPLAIN", (f"EXPLAIN {self.chance.choice(('', '', '(ANALYZE)'))} {statement}",))

    def _changes(self, count: int) -> list[str]:
        makers = (self.insert, self.update, self.insert_query, self.upsert, self.delete, self.select, self.merge)
        return [statement for _ in range(count) for statement in self.chance.choice(makers)().statements]

    def block(self) -> Step:
        level = self.chance.choice(("", "ISOLATION LEVEL REPEATABLE READ", "ISOLATION LEVEL SERIALIZABLE"))
        end = self.chance.choice(("COMMIT", "COMMIT", "ROLLBACK"))
        return Step(self._writer(), "block", (f"BEGIN {level}", *self._changes(2), end))

    def savepoint(self) -> Step:
        first, second, third = (self._changes(1)[0] for _ in range(3))
        return Step(
            self._writer(),
            "savepoint",
            ("BEGIN", first, "SAVEPOINT s", second, "ROLLBACK TO s", third, "RELEASE s", "COMMIT"),
        )

    def table_as(self) -> Step:
        name = self._name()
        return Step(
            OWNER,
            "CREATE TABLE AS",
            (f"CREATE TABLE {name} AS SELECT id, d, {self._value()} AS x, {self._cast()} AS y FROM {self._t}",),
        )

    def temporary(self) -> Step:
        return Step(
            self._reader(),
            "temporary table",
            (
                "DROP TABLE IF EXISTS kept",
                f"CREATE TEMPORARY TABLE kept AS SELECT id, d, m, {self._value()} AS x FROM {self._t}",
                f"INSERT INTO kept (id, d) SELECT id, d FROM {self._t} WHERE {self._condition()}",
                "DROP TABLE kept",
            ),
        )

    def with_changes(self) -> Step:
        return Step(
            self._writer(),
            "WITH that changes",
            (f"WITH w AS (UPDATE {self._t} SET {self._set()} WHERE id < 4 RETURNING id) SELECT count(*) FROM w",),
        )

    def procedure(self) -> Step:
        return Step(
            self._writer(),
            "CALL and DO",
            (
                self.chance.choice(
                    (
                        f"CALL {self.world.schema}.p({self._key()})",
                        f"DO $$ BEGIN INSERT INTO {self._t} (id, d) VALUES ({self._key()}, 1); END $$",
                        f"DO $$ BEGIN PERFORM {self.chance.choice(self.world.of_integer)}(1); END $$",
                    )
                ),
            ),
        )
