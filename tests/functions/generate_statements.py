"""Random statements of PL/pgSQL over three tables, a sequence and a view.

Whatever an answer depends on is certain: queries have an order, and changes of many rows do not see each other.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, TypeVar

from tests.answers.tree import Node
from tests.functions.bodies import Branch, Caught, Handler, Line, Loop

Picked = TypeVar("Picked")

TABLES: Final = ("parent", "child", "log")
VARIABLES: Final = """i integer := 1; j integer := 2; t text := 'x'; r record; many integer[]; one parent;
walk refcursor;"""
_CONDITIONS: Final = (
    "OTHERS",
    "OTHERS",
    "unique_violation",
    "unique_violation",
    "foreign_key_violation",
    "foreign_key_violation",
    "check_violation",
    "not_null_violation",
    "unique_violation OR check_violation",
    "no_data_found",
    "too_many_rows",
    "sqlstate 'P0009'",
    "integrity_constraint_violation",
    "raise_exception",
    "division_by_zero",
)
# `told` commits, and adds one to its argument.
_ENDINGS: Final = (
    "COMMIT",
    "COMMIT",
    "COMMIT",
    "ROLLBACK",
    "COMMIT AND CHAIN",
    "ROLLBACK AND CHAIN",
    "CALL told(i)",
    "CALL told(j, b => t)",
    "DO 'BEGIN INSERT INTO log VALUES (''in a block'', 1); COMMIT; END'",
)
_MERGED: Final = ("'merged'", "NULL")
_NAMES: Final = ("'child'", "quote_ident('parent')", "'log'")


class Statements:
    """Makes statements for one place: `returns` names it ("a" is a function of `a` alone, "client" no function)."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.returns = ""
        self.arguments = True  # whether `a` and `b` are there
        self.row: tuple[str, ...] = ()  # of NEW and OLD
        self.writes: tuple[str, ...] = TABLES
        self.calls_others = False
        # Whether functions do more than change rows, or triggers fire: such statements may be executed twice, so that
        # numbers of sequences have gaps.
        self.gaps = self.often(0.3)
        self.ending = False  # whether statements may end the transaction
        self._handles = False
        self._loops = 0

    def often(self, share: float) -> bool:
        return self._chance.random() < share

    def pick(self, *options: Picked) -> Picked:
        return self._chance.choice(options)

    def statements(self, count: int, depth: int) -> list[Node]:
        return [self._statement(depth) for _ in range(count)]

    def _statement(self, depth: int) -> Node:
        if self.ending and self.often(0.2):
            return Line(self.pick(*_ENDINGS))
        if depth and self.often(0.35):
            return self._nested(depth - 1)
        common = [self.change] * 5 + [self._assignment] * 2 + [self._notice] * 2 + [self._into] * 2
        others = [
            self._dynamic,
            self._diagnostics,
            self._raised,
            self._performed,
            self._ends,
            self._seldom,
            self._leaves,
        ]
        return Line(self.pick(*common, *others)())

    def _nested(self, depth: int) -> Node:
        choice = self.pick(*range(9))
        if 2 <= choice <= 5:
            return self._loop(choice, depth)
        inner = tuple(self.statements(self.pick(1, 2, 2, 3), depth))
        if choice <= 1:
            return Branch(self.condition(), inner, tuple(self.statements(1, depth)) if self.often(0.4) else ())
        handlers = []
        for _ in range(self.pick(1, 1, 2)):
            handled, self._handles = self._handles, True
            handlers.append(Handler(self.pick(*_CONDITIONS), tuple(self.statements(self.pick(1, 2), 0))))
            self._handles = handled
        return Caught(inner, tuple(handlers))

    def _loop(self, choice: int, depth: int) -> Node:
        self._loops += 1
        inner = self.statements(self.pick(1, 2), depth)
        self._loops -= 1
        if choice == 2:
            head = f"FOR i IN {self.pick('1..2', '1..3', 'REVERSE 3..2')}"
            return Loop(self.pick(head, "FOREACH i IN ARRAY ARRAY[1, 7, NULL]"), tuple(inner))
        if choice == 3 and self.writes == TABLES:
            return Loop("FOR r IN UPDATE parent SET n = coalesce(n, 0) + 1 WHERE id = 2 RETURNING *", tuple(inner))
        where = self.pick("", " WHERE n IS NOT NULL", " WHERE id < 4")
        query = f"SELECT * FROM {self.pick('parent', 'child')}{where} ORDER BY id"
        use = Line(self.pick("i := r.id", "RAISE NOTICE 'row %', r", "j := coalesce(r.n, 0)"))
        return Loop(f"FOR r IN {self.pick(query, query, f'EXECUTE $q${query}$q$')}", (use, *inner))

    # Changes of rows.

    def change(self) -> str:
        return self.pick(*(each for table in self.writes for each in self._changes_of(table)))()

    def changes(self, count: int) -> list[Node]:
        return [Line(self.change()) for _ in range(count)]

    def _changes_of(self, table: str) -> tuple[Callable[[], str], ...]:
        return {
            "parent": (self._insert_parent, self._insert_parent, self._update_parent, self._delete_parent, self._merge),
            "child": (self._insert_child, self._insert_child, self._update_child, self._delete_child, self._view),
            "log": (self._insert_log, self._insert_log, self._moved, self._change_log),
        }[table]

    def _insert_parent(self) -> str:
        key = self.pick("1", "2", "3", "4", "5", "8", "11", self.integer())
        if not self.gaps and self.often(0.15):
            return f"INSERT INTO parent (n, s) VALUES ({self.integer()}, {self.text()})"
        conflict = self.pick(
            "",
            "",
            "",
            " ON CONFLICT DO NOTHING",
            " ON CONFLICT (id) DO NOTHING",
            " ON CONFLICT (id) DO UPDATE SET n = excluded.n",
            " ON CONFLICT (id) DO UPDATE SET n = parent.n + 1 WHERE parent.n > 5",
        )
        return f"INSERT INTO parent (id, n, s) VALUES ({key}, {self.integer()}, {self.text()}){conflict}"

    def _update_parent(self) -> str:
        return self.pick(
            f"UPDATE parent SET n = {self.integer()} WHERE id = {self.integer()}",
            f"UPDATE parent SET n = coalesce(n, 0) + {self.pick('1', '2', '30')}",
            f"UPDATE parent SET id = id + 100 WHERE id = {self.integer()}",
            f"UPDATE parent SET s = {self.text()} WHERE id = {self.pick('1', '2', '3')}",
            "UPDATE parent SET n = c.total FROM"
            " (SELECT parent, sum(n)::integer AS total FROM child GROUP BY parent) AS c WHERE c.parent = id",
        )

    def _delete_parent(self) -> str:
        return f"DELETE FROM parent WHERE id = {self.pick('1', '3', '7', '9', self.integer())}"

    def _merge(self) -> str:
        return (
            f"MERGE INTO parent USING (VALUES ({self.pick('1', '4')}, {self.integer()}), (12, 1)) AS v (k, n)"
            f" ON id = k WHEN MATCHED THEN {self.pick('UPDATE SET n = v.n', 'DELETE', 'DO NOTHING')}"
            f" WHEN NOT MATCHED THEN INSERT (id, n, s) VALUES (k, v.n, {self.pick(*_MERGED)})"
        )

    def _insert_child(self) -> str:
        key = self.pick("1", "2", "6", "7", "10", "20", self.integer())
        parent = self.pick("1", "2", "7", "4", "99", "NULL", self.integer())
        end = self.pick("", "", "", " ON CONFLICT DO NOTHING", " ON CONFLICT (id) DO UPDATE SET n = excluded.n + 1")
        if not end and self.returns not in ("a", "client") and self.often(0.2):
            end = " RETURNING id INTO i"
        return f"INSERT INTO child (id, parent, n) VALUES ({key}, {parent}, {self.integer()}){end}"

    def _update_child(self) -> str:
        some, parent = self.pick("1", "2", "3", "4"), self.pick("1", "2", "5", "99", "NULL")
        return self.pick(
            f"UPDATE child SET n = {self.integer()} WHERE id = {self.integer()}",
            f"UPDATE child SET parent = {parent} WHERE id = {some}",
            f"UPDATE child SET n = coalesce(n, 0) + 1 WHERE id < {self.pick('3', '5')}",
            f"UPDATE child SET n = coalesce(n, 0) + {self.pick('20', '48')} WHERE id = {some}",
            f"UPDATE child SET id = id + 100 WHERE parent = {self.pick('1', '2')}",
        )

    def _delete_child(self) -> str:
        return f"DELETE FROM child WHERE {self.pick('id', 'parent')} = {self.pick('1', '2', '3', self.integer())}"

    def _view(self) -> str:
        """Over the view, which an INSTEAD OF trigger changes or nothing does."""
        return self.pick(
            f"INSERT INTO both_of (id, n, s) VALUES ({self.pick('1', '6', '40')}, {self.integer()}, {self.text()})",
            f"UPDATE both_of SET n = {self.integer()} WHERE id = {self.pick('1', '3')}",
            f"DELETE FROM both_of WHERE id = {self.pick('2', '4')}",
        )

    def _insert_log(self) -> str:
        return f"INSERT INTO log (what, n) VALUES ({self.text()}, {self.integer()})"

    def _moved(self) -> str:
        if self.writes != TABLES:
            return "INSERT INTO log (what, n) SELECT 'children', count(*) FROM child"
        return self.pick(
            f"WITH moved AS (DELETE FROM child WHERE parent = {self.pick('1', '2', '7')} RETURNING *)"
            " INSERT INTO log (what, n) SELECT 'moved', n FROM moved",
            "INSERT INTO log (what, n) SELECT coalesce(s, 'none'), n FROM parent",
            "WITH added AS (INSERT INTO child VALUES (60, 1, 1) RETURNING id)"
            " INSERT INTO log (what, n) SELECT 'added', id FROM added",
        )

    def _change_log(self) -> str:
        return self.pick(
            f"DELETE FROM log WHERE n = {self.integer()}",
            "UPDATE log SET n = n + 1",
            "TRUNCATE log" if self.gaps else "DELETE FROM log",
            f"UPDATE log SET what = {self.text()} WHERE what = 'first'",
        )

    # Others.

    def _assignment(self) -> str:
        return self.pick(
            f"i := {self.integer()}",
            f"j := {self.integer()}",
            f"t := {self.text()}",
            "many := ARRAY(SELECT id FROM parent ORDER BY id)",
            f"i := (SELECT count(*) FROM {self.pick(*TABLES)})",
        )

    def _notice(self) -> str:
        return self.pick(
            f"RAISE NOTICE 'i % j %', i, {self.integer()}",
            f"RAISE NOTICE '%', {self.text()}",
            "RAISE WARNING 'many %', many",
            "RAISE NOTICE 'found %', FOUND",
        )

    def _into(self) -> str:
        strict = self.pick("", "", "STRICT ")
        return self.pick(
            f"SELECT n, s INTO {strict}i, t FROM parent WHERE id = {self.integer()}",
            f"SELECT * INTO {strict}r FROM child WHERE id = {self.integer()}",
            f"SELECT * INTO {strict}one FROM parent WHERE n > {self.integer()} ORDER BY id",
            f"SELECT n INTO {strict}i FROM child WHERE id = {self.pick('1', '3', '9')} FOR UPDATE",
            "SELECT count(*), max(c.id) INTO i, j FROM child AS c JOIN parent AS p ON p.id = c.parent",
            "SELECT max(n) INTO i FROM log",
        )

    def _dynamic(self) -> str:
        return self.pick(
            f"EXECUTE 'SELECT count(*) FROM ' || {self.pick(*_NAMES)} INTO i",
            f"EXECUTE format('SELECT n FROM %I WHERE id = $1', 'parent') INTO j USING {self.integer()}",
            f"EXECUTE 'INSERT INTO log (what, n) VALUES ($1, $2)' USING {self.text()}, i",
            "EXECUTE 'UPDATE ' || 'log SET n = ' || coalesce(i, 0)",
        )

    def _diagnostics(self) -> str:
        if self._handles:
            return self.pick(
                "GET STACKED DIAGNOSTICS t = CONSTRAINT_NAME",
                "GET STACKED DIAGNOSTICS t = MESSAGE_TEXT",
                "GET STACKED DIAGNOSTICS t = PG_EXCEPTION_DETAIL",
                "RAISE NOTICE '% %', SQLSTATE, SQLERRM",
            )
        return "GET DIAGNOSTICS i = ROW_COUNT"

    def _raised(self) -> str:
        if self._handles and self.often(0.5):
            return "RAISE"
        if self.often(0.6):
            return self._notice()
        return self.pick(
            f"RAISE EXCEPTION 'no %', {self.integer()}",
            "RAISE EXCEPTION USING ERRCODE = 'P0009', MESSAGE = 'nine'",
            "RAISE unique_violation USING MESSAGE = 'not really'",
            "i := 1 / (i - i)",
            "ASSERT i > 1, 'one'",
        )

    def _performed(self) -> str:
        if not self.calls_others:
            return self._notice()
        return self.pick(
            f"PERFORM g({self.integer()})",
            f"i := g({self.integer()})",
            "PERFORM g(id) FROM parent WHERE id < 3 ORDER BY id",
        )

    def _leaves(self) -> str:
        if not self._loops:
            return self._assignment()
        return self.pick("EXIT WHEN i > 2", "CONTINUE WHEN i = 2", "CONTINUE WHEN r.n IS NULL", "EXIT WHEN NOT FOUND")

    def _seldom(self) -> str:
        """What has effects beside the tables, or goes through a cursor."""
        numbers: tuple[str, ...] = (
            "i := nextval('counter')",
            "RAISE NOTICE 'last %', (SELECT last_value FROM counter)",
        )
        makes = "CREATE TEMPORARY TABLE IF NOT EXISTS scratch (x integer)"
        sets = f"PERFORM set_config('app.said', {self.text()}, {self.pick('true', 'false')})"
        chosen = (makes, f"{makes}; INSERT INTO scratch VALUES (i)", sets) if self.gaps else numbers
        return self.pick(
            *chosen,
            "t := current_setting('app.said', true)",
            "OPEN walk FOR SELECT * FROM child ORDER BY id; FETCH walk INTO r; RAISE NOTICE 'at %', r; CLOSE walk",
            "OPEN walk FOR SELECT * FROM child WHERE id < 3; FETCH walk INTO r;"
            " UPDATE child SET n = 40 WHERE CURRENT OF walk; CLOSE walk",
            "PERFORM pg_advisory_xact_lock(7)",
        )

    def _ends(self) -> str:
        if self.returns == "rows":
            return self.pick(
                f"RETURN NEXT {self.integer()}",
                "RETURN QUERY SELECT id FROM parent ORDER BY id",
                "RETURN QUERY EXECUTE 'SELECT id FROM child ORDER BY id'",
                "RETURN QUERY UPDATE child SET n = 3 WHERE id = 3 RETURNING id",
            )
        if self.returns == "table":
            return self.pick("RETURN QUERY SELECT id, s FROM parent ORDER BY id", "x := i; y := t; RETURN NEXT")
        return self._into()

    # Expressions.

    def integer(self) -> str:
        asked = ["(SELECT count(*)::integer FROM child)", "(SELECT max(id) FROM parent)"]
        if self.returns == "client":
            return self.pick("1", "2", "7", asked[1], "g(1)", "g(7)", "NULL")
        if self.returns == "a":
            return self.pick("a", "a + 1", "1", "2", "(SELECT n FROM parent WHERE id = a)", *asked)
        options = ["1", "2", "3", "7", "i", "j", "i + 1", "coalesce(i, 0) + coalesce(j, 0)", "(i % 5) + 1", "length(t)"]
        options += ["NULL::integer", "(SELECT n FROM parent WHERE id = 2)", *asked]
        options += ["(SELECT count(*)::integer FROM log WHERE n > 0)"]
        options += ["(SELECT sum(c.n)::integer FROM child AS c WHERE c.parent = 1)"]
        options += ["a", "a", "a + 1"] if self.arguments else []
        options += [f"{row}.{column}" for row in self.row for column in ("id", "n")]
        options += ["g(1)", "g(2)", "g(7)"] if self.calls_others else []
        return self.pick(*options)

    def text(self) -> str:
        options = ["'x'", "'one'", "'y'", "NULL"]
        options += ["(SELECT string_agg(what, ',' ORDER BY what) FROM log)", "(SELECT s FROM parent WHERE id = 1)"]
        if self.returns not in ("a", "client"):
            options += ["t", "'n ' || i", "t || j"] + (["b", "b || a"] if self.arguments else [])
        options += ["SQLERRM", "SQLSTATE"] if self._handles else []
        options += [f"'of ' || {row}.id" for row in self.row]
        options += ["TG_OP", "TG_OP || ' ' || TG_TABLE_NAME", "TG_NAME"] if self.returns == "trigger" else []
        return self.pick(*options)

    def condition(self) -> str:
        return self.pick(
            "i > j",
            "FOUND",
            "NOT FOUND",
            "t IS NULL",
            "i % 2 = 0",
            "EXISTS (SELECT FROM child WHERE parent = i)",
            "i IN (SELECT id FROM parent)",
            "(SELECT count(*) FROM log) > 2",
            "NOT EXISTS (SELECT FROM parent WHERE n > 20)",
        )
