"""The reader of PostgreSQL's node text."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.errors import SluiceError
from catalog.postgres.embedded import EmbeddedPostgres
from planner.tree import datum, nodes
from planner.tree.nodes import Bitmapset, Node
from planner.tree.references import functions, relations


def analysed(postgres: EmbeddedPostgres, sql: str) -> str:
    found: list[str] = []
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(
            "SET debug_print_rewritten = on; SET client_min_messages = log; SET debug_pretty_print = off"
        )
        connection.add_notice_handler(lambda notice: found.append(notice.message_detail or ""))
        connection.pgconn.prepare(b"", sql.encode())
    assert len(found) == 1
    return found[0]


def test_values() -> None:
    tree = nodes.parse(
        '({VAR :a 1 :b -2 :c <> :d true :e (b 8 9) :f (i 1 2) :g (o 7) :h ("x y" "q\\"") :i foo\\ bar :j (b) :k "" '
        ":l 4 [ 1 0 -1 0 0 0 0 0 ] :m {X} :n :o :p 1.5})"
    )
    (node,) = tree
    assert node.type == "VAR"
    assert node.fields == {
        "a": 1, "b": -2, "c": None, "d": True, "e": Bitmapset({8, 9}), "f": (1, 2), "g": (7,), "h": ("x y", 'q"'),
        "i": "foo bar", "j": Bitmapset(), "k": "", "l": b"\x01\x00\xff\x00", "m": Node("X", {}), "n": ":o", "p": "1.5",
    }  # fmt: skip


def test_what_is_not_analysed_may_begin_with_a_word(postgres: EmbeddedPostgres) -> None:
    """EXECUTE's arguments come as PostgreSQL's grammar made them."""
    sql = "EXECUTE \"true\" (NULL, 1 = ANY ('{1}'), 2 IN (3), 4 BETWEEN 5 AND 6, NULLIF(7, 8), 9.5)"
    # To describe it, PostgreSQL looks the prepared statement up.
    text = analysed(postgres, sql)
    (query,) = nodes.parse(text)
    execute = query.utilityStmt
    assert nodes.name_of(execute.name) == "true"
    assert [argument.fields.get("kind") for argument in execute.params] == [
        "NULL", "ANY", "IN", "BETWEEN", "NULLIF", None,
    ]  # fmt: skip


def test_names_come_back_as_they_were_written(postgres: EmbeddedPostgres) -> None:
    names = ["true", ":x", "a b", "1", "-1", "<>", "(", "{x}", "\\", "täx", 'q"q', "x\ny"]
    selected = ", ".join(f'{number} AS "{name.replace(chr(34), chr(34) * 2)}"' for number, name in enumerate(names))
    (query,) = nodes.parse(analysed(postgres, f"SELECT {selected}"))
    found = [nodes.text(target.resname) for target in query.targetList]
    # A line of the text may end at a blank, and so may a name's own line: the two cannot be told apart.
    assert found == [name.replace("\n", " ") for name in names]


def test_a_large_tree_is_read_in_milliseconds(postgres: EmbeddedPostgres) -> None:
    text = analysed(postgres, "SELECT " + ", ".join(f"{n} + length('{n}')" for n in range(40)))
    assert len(text) > 12_000
    nodes.parse(text)
    start = time.thread_time()
    nodes.parse(text)
    assert time.thread_time() - start < 0.05


def test_references_are_found_in_sublinks_and_views(postgres: EmbeddedPostgres) -> None:
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE one (a int); CREATE TABLE two (b int); CREATE VIEW seen AS SELECT b FROM two")
        rows = connection.execute("SELECT 'one'::regclass::oid::int, 'two'::regclass::oid::int").fetchone()
    tree = nodes.parse(analysed(postgres, "SELECT a FROM one WHERE a IN (SELECT abs(b) FROM seen)"))
    assert rows is not None
    assert relations(tree) == set(rows)
    assert functions(tree) == {65, 1397}  # int4eq, abs(int4)


@given(st.text(alphabet='(){}<>:ab1 "\\[]-\n', max_size=60))
@settings(max_examples=300, deadline=None)
def test_garbage_is_an_error_and_nothing_else(text: str) -> None:
    try:
        nodes.parse(text)
    except SluiceError as error:
        assert error.sqlstate == "XX000"  # noqa: PT017


@pytest.mark.parametrize("text", ["", "(", ")", "{A :x}", "{A 1}", "1 2", "{A :x 1", "(" * 6000, "9 [ 1 ]"])
def test_malformed(text: str) -> None:
    with pytest.raises(SluiceError, match="cannot read PostgreSQL's parse tree"):
        nodes.parse(text)


def _wrapped(text: str) -> str:
    """As PostgreSQL breaks lines: at the last blank of 78 characters, which is lost, or behind them."""
    lines = []
    while len(text) > 78:
        end = 78 if text[78] == " " else text.rfind(" ", 1, 78)
        end = 78 if end < 0 else end
        lines.append(text[:end])
        text = text[end:].removeprefix(" ")
    return "\n".join([*lines, text])


@pytest.mark.parametrize("length", [*range(60, 68), *range(69, 90), 150, 300])
def test_a_string_that_is_longer_than_a_line(length: int) -> None:
    text = f'({{A :val "{"x" * length}" :list ("{"y" * (length + 7)}" "{"z" * length}") :base.end 1}})'
    tree = nodes.parse(_wrapped(text))
    assert tree == nodes.parse(text)
    assert [len(each) for each in (tree[0].val, *tree[0].list)] == [length, length + 7, length]
    assert tree[0].end == 1


# Statements that PostgreSQL prints as its grammar made them, and where their text is in the tree.
_WITH_TEXT: dict[str, Callable[[Any], list[Any]]] = {
    "DO {}": lambda do: [do.args[0].arg],
    "CREATE FUNCTION f() RETURNS void LANGUAGE sql AS {}": lambda function: [*function.options[1].arg],
    "CREATE VIEW v AS SELECT {} AS a, {}": lambda view: [target.val.val for target in view.query.targetList],
    "PREPARE q AS VALUES ({}, {})": lambda prepare: [value.val for value in prepare.query.valuesLists[0]],
    "COMMENT ON TABLE t IS {}": lambda comment: [nodes.text(comment.comment)],
    "NOTIFY n, {}": lambda notify: [nodes.text(notify.payload)],
    "CREATE TABLE t (a text DEFAULT {} CHECK (a <> {}))": lambda create: [
        create.tableElts[0].constraints[0].raw_expr.val, create.tableElts[0].constraints[1].raw_expr.rexpr.val,
    ],
}  # fmt: skip
_PIECES = (
    "x",
    "-",
    "é",
    "漢",
    "🙂",
    " ",
    "\n",
    "\t",
    "(",
    ")",
    "{",
    "}",
    '"',
    "\\",
    ":",
    "<>",
    "1",
    "'",
    ":location 5",
    "} ",
)


def _text(random: Random) -> str:
    """Runs of few characters, which are about as long as PostgreSQL's lines, and what ends words between them."""
    return "".join(
        random.choice(_PIECES) * random.choice((1, 1, 2, 25, 26, 37, 39, 60, 76, 77, 78, 79, random.randrange(240)))
        for _ in range(random.randrange(1, 6))
    )


def _printed(connection: psycopg.Connection, sql: str) -> str:
    """The tree as the server's bytes have it: a line may end within a character."""
    found: list[bytes] = []
    connection.pgconn.notice_handler = lambda result: found.append(
        result.error_field(psycopg.pq.DiagnosticField.MESSAGE_DETAIL) or b""
    )
    prepared = connection.pgconn.prepare(b"", sql.encode())
    assert prepared.status == psycopg.pq.ExecStatus.COMMAND_OK, prepared.error_message
    [text] = found
    return text.decode("utf-8", "surrogateescape")


@pytest.mark.parametrize("statement", _WITH_TEXT)
def test_text_of_any_kind(postgres: EmbeddedPostgres, statement: str) -> None:
    """But for line feeds, which nobody can tell from blanks. Seldom nobody can tell where a word ends, which is told."""
    random = Random(statement)
    unknown = 0
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(
            "SET debug_print_rewritten = on; SET client_min_messages = log; SET debug_pretty_print = off"
        )
        for _ in range(400):
            texts = [_text(random) for _ in range(statement.count("{}"))]
            sql = statement.format(*("'" + text.replace("'", "''") + "'" for text in texts))
            try:
                (query,) = nodes.parse(_printed(connection, sql))
            except SluiceError as error:
                assert "nobody can tell" in error.message  # noqa: PT017
                unknown += 1
                continue
            assert _WITH_TEXT[statement](query.utilityStmt) == [text.replace("\n", " ") for text in texts]
    # Strings stand in quotes, those of functions' bodies in a list; other words do not.
    assert unknown <= (8 if "FUNCTION" in statement else 40 if statement.startswith(("COMMENT", "NOTIFY")) else 0)


def test_a_break_that_may_have_lost_a_blank() -> None:
    """Behind a name of a whole line's length, nobody knows."""
    texts = (
        "{A :val " + "x" * 78 + " :and 1}",
        "{A :val " + "x" * 77 + "\\ }",
        '({A :val 1} "' + r"\(" * 38 + '" "y")',
    )
    for text in texts:
        with pytest.raises(SluiceError, match="nobody can tell"):
            nodes.parse(_wrapped(text))


def test_lists_of_constants(postgres: EmbeddedPostgres) -> None:
    """Nobody goes over them who asks for nodes; who asks for constants has each."""
    long = "x" * 100_000
    (query,) = nodes.parse(analysed(postgres, f"VALUES (1, 'a'), (-2, NULL), (NULL, '{long}')"))
    [values] = [entry.values_lists for entry in query.rtable]
    assert isinstance(values, nodes.Constants)
    assert all(node.type != "CONST" for node in nodes.walk(query))
    assert sorted(node.consttype for node in nodes.constants(query)) == [23, 23, 23, 25, 25, 25]
    assert [[node.constisnull for node in row] for row in values] == [[False, False], [False, True], [True, False]]
    assert [datum.read(23, row[0].constvalue) for row in values[:2]] == [1, -2]
    assert datum.read(25, values[2][1].constvalue) == long
    assert values[1][1].constvalue is None


def test_numbers_that_are_no_bytes() -> None:
    """They are looked at when somebody reads them."""
    head = "{CONST :consttype 25 :consttypmod -1 :constcollid 0 :constlen -1 :constbyval false :constisnull false"
    for content in ("300 ", "1 ", f"{'1 ' * 100}x "):
        with pytest.raises(SluiceError, match="cannot read PostgreSQL's parse tree"):
            _ = nodes.parse(f"{head} :location 3 :constvalue 5 [ {content}]}}").constvalue
