"""What is cut out of the text of index changes and of ALTER TABLE, where PostgreSQL's tree tells what is there."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.errors import SluiceError
from planner.syntax.alter_text import command_texts, past_guards, using_expressions
from planner.syntax.concurrently_option import concurrent_command, plainly
from planner.tree.nodes import Node, parse

_RETYPED = "{{ALTERTABLECMD :subtype 24 :name {} :def {{COLUMNDEF :colname <> :raw_default {}}}}}"
_OTHER = "{ALTERTABLECMD :subtype 0 :name <> :def {COLUMNDEF :colname x :raw_default <>}}"


def _alter(*commands: str) -> Node:
    found = parse(f"{{ALTERTABLESTMT :cmds ({' '.join(commands)})}}")
    assert isinstance(found, Node)
    return found


@pytest.mark.parametrize(
    ("statement", "columns", "found"),
    [
        ("ALTER TABLE t ALTER a TYPE text", ["a <>"], {}),
        ("ALTER TABLE t ALTER a TYPE text USING 'x' || a", ["a 1"], {"a": "'x' || a"}),
        ("alter table only s.t alter column A set data type numeric(3, 2) using f(a, 2) ;", ["a 1"], {"a": "f(a, 2)"}),
        (
            'ALTER TABLE IF EXISTS "using" ALTER "A b" TYPE int USING ("A b"::int), ADD x int',
            ["A\\ b 1", ""],
            {"A b": '("A b"::int)'},
        ),
        (
            "ALTER TABLE t ADD CHECK (a > 0), ALTER b TYPE int USING b::int, ALTER c TYPE date USING d -- why\n",
            ["", "b 1", "c 1"],
            {"b": "b::int", "c": "d"},
        ),
        ("ALTER TABLE t ALTER a TYPE int[] USING ARRAY[a, b], ADD x int", ["a 1", ""], {"a": "ARRAY[a, b]"}),
        ('ALTER TABLE t ALTER U&"\\0061" TYPE text USING $$,$$', ["a 1"], {"a": "$$,$$"}),
        ("ALTER TABLE t ADD CONSTRAINT u UNIQUE USING INDEX i", [""], {}),
        ("ALTER TABLE t ALTER a TYPE int USING (SELECT b AS c, 1 USING)", ["a 1"], {"a": "(SELECT b AS c, 1 USING)"}),
        ("ALTER TABLE alter ALTER alter TYPE int USING alter + 1", ["alter 1"], {"alter": "alter + 1"}),
    ],
)
def test_using(statement: str, columns: Sequence[str], found: dict[str, str]) -> None:
    tree = _alter(*(_RETYPED.format(*each.rsplit(" ", 1)) if each else _OTHER for each in columns))
    assert using_expressions(tree, lambda: command_texts(statement)) == found


def test_set_expression() -> None:
    tree = _alter("{ALTERTABLECMD :subtype 6 :name a :def {A_CONST :val 1}}", _OTHER)
    statement = "ALTER TABLE t ALTER a SET EXPRESSION AS (b + 1), ALTER COLUMN c SET STATISTICS 5"
    assert using_expressions(tree, lambda: command_texts(statement)) == {"a": "(b + 1)"}


def test_another_number_of_commands_is_refused() -> None:
    with pytest.raises(SluiceError):
        using_expressions(_alter(_RETYPED.format("a", 1)), lambda: command_texts("ALTER TABLE t ALTER a TYPE b, ADD c"))


def test_triggers_of_the_gateway() -> None:
    every, users = "{ALTERTABLECMD :subtype 42 :name <>}", "{ALTERTABLECMD :subtype 44 :name <>}"
    both = _alter(every, _OTHER)
    assert past_guards(both, "alter table t disable trigger ALL /* , */, add x int -- all") == (
        "alter table t disable trigger USER /* , */, add x int -- all"
    )
    assert past_guards(_alter(users), "ALTER TABLE t DISABLE TRIGGER USER") == "ALTER TABLE t DISABLE TRIGGER USER"


@given(st.text(max_size=60))
def test_never_fails(text: str) -> None:
    command_texts(text)
    command_texts("ALTER TABLE t ALTER " + text)


_RELATION = "{{RANGEVAR :catalogname <> :schemaname {} :relname t :inh {} :location {}}}"


def _create(name: str, statement: str, table: str, *, unique: bool = False, inh: bool = True) -> Node:
    relation = _RELATION.format("<>", str(inh).lower(), len(statement[: statement.index(table)].encode()))
    found = parse(
        f"{{INDEXSTMT :idxname {name} :relation {relation} :unique {str(unique).lower()} :concurrent true"
        " :if_not_exists false}"
    )
    assert isinstance(found, Node)
    return found


@pytest.mark.parametrize(
    ("name", "statement", "plain"),
    [
        ("i", "create index concurrently i on t (a)", 'CREATE INDEX "i" ON t (a)'),
        ("<>", "CREATE INDEX /* é */ CONCURRENTLY ON t (a)", "CREATE INDEX ON t (a)"),
        ("concurrently", 'CREATE INDEX CONCURRENTLY "concurrently" ON t (a)', 'CREATE INDEX "concurrently" ON t (a)'),
    ],
)
def test_an_index_is_made_plainly(name: str, statement: str, plain: str) -> None:
    made = plainly(_create(name, statement, "t (a)"), statement)
    assert " ".join(made.split()) == plain
    assert made.index("t (a)") == statement.index("t (a)"), "errors keep their positions"


def test_an_index_of_only_one_table() -> None:
    statement = "CREATE UNIQUE INDEX CONCURRENTLY i ON ONLY ( t ) USING btree (a)"
    tree = _create("i", statement, "t )", unique=True, inh=False)
    assert " ".join(plainly(tree, statement).split()) == 'CREATE UNIQUE INDEX "i" ON ONLY ( t ) USING btree (a)'


@pytest.mark.parametrize(
    ("tree", "plain"),
    [
        (
            '{DROPSTMT :objects (("public" "q"x")) :removeType 20 :behavior 0 :missing_ok true :concurrent true}',
            'DROP INDEX IF EXISTS "public"."q""x"',
        ),
        (
            (
                "{REINDEXSTMT :kind 1 :relation {RANGEVAR :catalogname <> :schemaname s :relname t} :name <> :params"
                ' ({DEFELEM :defname verbose :arg "off"} {DEFELEM :defname concurrently :arg <>}'
                ' {DEFELEM :defname tablespace :arg "my\\ ts"} {DEFELEM :defname x :arg 1})}'
            ),
            'REINDEX ("verbose" "off", "tablespace" "my ts", "x" 1) TABLE "s"."t"',
        ),
        (
            "{REINDEXSTMT :kind 2 :relation <> :name public :params ({DEFELEM :defname concurrently :arg <>})}",
            'REINDEX SCHEMA "public"',
        ),
        (
            "{REINDEXSTMT :kind 4 :relation <> :name <> :params ({DEFELEM :defname concurrently :arg 1})}",
            "REINDEX DATABASE",
        ),
    ],
)
def test_other_changes_of_indexes(tree: str, plain: str) -> None:
    utility = parse(tree)
    assert concurrent_command(utility) is not None
    assert plainly(utility, "") == plain
