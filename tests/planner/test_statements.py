"""A query string falls into PostgreSQL's statements, and inner statements are found."""

from __future__ import annotations

import pytest

from planner.syntax.statements import (
    CommonText,
    WithText,
    declared,
    drops_tables,
    executed,
    explained,
    explaining,
    is_schema_change,
    merge,
    needs_no_analysis,
    parenthesised,
    prepared,
    setting,
    split,
    table_as,
    with_text,
)


def test_split_at_semicolons_of_the_outermost_level() -> None:
    text = "select 1; ;update t set a = ';' -- ;\n; create rule r as on insert to t do also (select 1; select 2)"
    assert [(statement.text, statement.first_word) for statement in split(text)] == [
        ("select 1", "select"),
        ("update t set a = ';'", "update"),
        ("create rule r as on insert to t do also (select 1; select 2)", "create"),
    ]
    assert all(text[statement.offset :].startswith(statement.text) for statement in split(text))


def test_a_function_body_is_one_statement() -> None:
    body = "create function f() returns int begin atomic select case when true then 1 end; select 2; end"
    assert [statement.text for statement in split(f"{body}; select 3")] == [body, "select 3"]


@pytest.mark.parametrize("text", ["", "  ", ";;", "-- nothing\n", "/* nothing */"])
def test_nothing_is_no_statement(text: str) -> None:
    assert split(text) == ()


@pytest.mark.parametrize("text", ["select 1, 'a'", "SET x = 1", "show x", "commit", "select current_date"])
def test_statements_that_touch_nothing_are_known_at_a_glance(text: str) -> None:
    assert needs_no_analysis(split(text)[0])


@pytest.mark.parametrize(
    "text", ["select f()", "select a from t", "table t", "values (1)", "(select 1)", "select 1 @@ 2", "do 'x'"]
)
def test_all_others_are_analysed(text: str) -> None:
    assert not needs_no_analysis(split(text)[0])


@pytest.mark.parametrize(
    ("text", "inner", "options"),
    [
        ("explain select 1", "select 1", {}),
        ("EXPLAIN ANALYZE VERBOSE select 1", "select 1", {"analyze": "true", "verbose": "true"}),
        ("explain (analyze, costs off) (select 1)", "(select 1)", {"analyze": "true", "costs": "off"}),
        ("explain (format 'JSON') select 1", "select 1", {"format": "json"}),
    ],
)
def test_explain(text: str, inner: str, options: dict[str, str]) -> None:
    start, found = explained(text)
    assert (text[start:], found) == (inner, options)


def test_copy_of_a_query() -> None:
    text = "copy (select (1), ')' from t) to stdout"
    start, end = parenthesised(text)
    assert text[start:end] == "select (1), ')' from t"


def test_table_as() -> None:
    parts = table_as("create table x (a, b) as select 1, 2 with no data")
    assert parts.without_data.split() == [
        "create",
        "table",
        "x",
        "(a,",
        "b)",
        "as",
        "select",
        "1,",
        "2",
        "WITH",
        "NO",
        "DATA",
    ]
    assert (parts.query.strip(), parts.with_data) == ("select 1, 2", False)
    assert table_as("create table x as table y").query == " table y"
    parts = table_as("create materialized view if not exists x (a) as select 1 as as_; -- no more")
    assert parts.without_data.endswith("select 1 as as_ WITH NO DATA")
    assert (parts.query, parts.with_data) == (" select 1 as as_", True)


@pytest.mark.parametrize(
    ("text", "head"),
    [
        ("create table x (a) with (fillfactor = 7) as select 1", "create table y (a) with (fillfactor = 7) as"),
        ('create unlogged table if not exists d . s."X y"as select 1', "create unlogged table if not exists yas"),
        ("select 1 into temp table s.x from t", "CREATE temp TABLE y AS "),
        ("create table if as table t", "create table y as"),
    ],
)
def test_table_as_under_another_name(text: str, head: str) -> None:
    assert table_as(text).head_for("y") == head


def test_select_into_keeps_positions() -> None:
    text = "select a into temp s.x from t"
    parts = table_as(text)
    assert parts.without_data.startswith("CREATE temp TABLE s.x AS select a ")
    assert len(parts.query) == len(text)
    assert parts.query.index("from") == text.index("from")


def test_prepare_and_declare() -> None:
    text = "prepare p (int) as select $1"
    assert text[prepared(text) :] == " select $1"
    text = "declare c scroll cursor with hold for select 1"
    assert text[declared(text) :] == " select 1"


def test_create_table_as_execute_is_taken_apart() -> None:
    parts = table_as("CREATE TABLE t AS EXECUTE p (1) WITH NO DATA")
    assert (parts.query.strip(), parts.with_data) == ("EXECUTE p (1)", False)
    assert parts.without_data == "CREATE TABLE t AS EXECUTE p (1)  WITH NO DATA"


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("EXECUTE p", ""),
        ("execute p(1, 'a)')", "(1, 'a)')"),
        ('EXECUTE "a b" /* ( */ ((1), f(2)) -- )', "((1), f(2))"),
    ],
)
def test_arguments_of_execute(text: str, arguments: str) -> None:
    start, end = executed(text)
    assert text[start:end] == arguments


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("SET a.b = 5", "5"),
        ("set local a.b to 'it''s'", "it's"),
        ("SET SESSION a . b TO word", "word"),
        ("SET a.b = DEFAULT", None),
        ("SET a.c = 5", None),
        ("SET a = b", None),
        ("SET TIME ZONE 'UTC'", None),
        ("SET a.b = E'\\x35'", None),
        ("SHOW a.b", None),
        ("SET", None),
    ],
)
def test_a_setting(text: str, value: str | None) -> None:
    assert setting(split(text)[0], "a.b") == value


@pytest.mark.parametrize(
    ("source", "alias"),
    [
        ("s", "s"),
        ("a.s AS x", "x"),
        ("(SELECT 1) q (n)", "q"),
        ("generate_series(1, 2) v(n)", "v"),
        ("pg_catalog.generate_series(1, 2) WITH ORDINALITY AS v (a, b)", "v"),
        ("generate_series(1, 2)", "generate_series"),
        ("(a JOIN b ON a.n = b.n) AS j", "j"),
        ("(a JOIN b ON a.n = b.n)", None),
        ("a JOIN b ON a.n = b.n", None),
        ("ROWS FROM (f(1)) AS x", None),
        ("LATERAL f(1) x", None),
        ("ONLY a AS x", None),
    ],
)
def test_what_a_source_of_merge_is_called(source: str, alias: str | None) -> None:
    parts = merge(f"MERGE INTO t USING {source} ON n = m WHEN MATCHED THEN DELETE")
    assert (parts.alias, parts.source.strip(), parts.condition.strip()) == (alias, source, "n = m")


def test_the_condition_of_merge_may_have_cases() -> None:
    condition = "CASE WHEN NOT matched THEN CASE WHEN matched THEN n = m END WHEN n = 1 THEN true END"
    parts = merge(f"MERGE INTO t USING s ON {condition} WHEN NOT MATCHED BY SOURCE THEN DELETE")
    assert (parts.condition.strip(), parts.actions, parts.by_source) == (
        condition,
        "WHEN NOT MATCHED BY SOURCE THEN DELETE",
        True,
    )


def test_the_queries_of_with() -> None:
    text = """with a as materialized (delete from t where x in (select ')' ) returning *), "B; c" (d, e)
        as not materialized (select ',' as as_), f AS (insert into u (v) values (1)) select * from a, "B; c" """
    assert with_text(text) == WithText(
        recursive=False,
        commons=(
            CommonText("a", "a", "delete from t where x in (select ')' ) returning *"),
            CommonText("B; c", '"B; c" (d, e)', "select ',' as as_"),
            CommonText("f", "f", "insert into u (v) values (1)"),
        ),
        main='select * from a, "B; c" ',
    )


def test_the_queries_of_with_recursive() -> None:
    search, cycle = " SEARCH DEPTH FIRST BY a, b SET place", " CYCLE a SET again TO 'y' DEFAULT 'n' USING path"
    text = f"WITH RECURSIVE a (n) AS (SELECT 1){search}{cycle}, b AS (SELECT 2){cycle} INSERT INTO t SELECT 3"
    assert with_text(text) == WithText(
        recursive=True,
        commons=(CommonText("a", "a (n)", "SELECT 1", search + cycle), CommonText("b", "b", "SELECT 2", cycle)),
        main="INSERT INTO t SELECT 3",
    )


@pytest.mark.parametrize(
    ("text", "stand_in"),
    [
        ("EXPLAIN ALTER TABLE t ADD c text", "EXPLAIN  SELECT"),
        ("explain (format json) /* here */ drop table t", "explain (format json) /* here */  SELECT"),
        ("EXPLAIN ANALYZE CREATE UNIQUE INDEX ON t (n)", "EXPLAIN ANALYZE  SELECT"),
        ("EXPLAIN CREATE INDEX ON t (n)", "EXPLAIN  SELECT"),
        ("EXPLAIN CREATE TABLE t AS SELECT 1", None),
        ("EXPLAIN CREATE TABLE t (a integer)", "EXPLAIN  SELECT"),
        ('EXPLAIN SELECT 1 AS "alter table"', None),
        ("EXPLAIN ALTER SYSTEM SET work_mem = 1", None),
        ("EXPLAIN", None),
        ("ALTER TABLE t ADD c text", None),
        ("", None),
    ],
)
def test_an_explained_change_of_schemas_has_a_stand_in(text: str, stand_in: str | None) -> None:
    assert explaining(text) == stand_in


@pytest.mark.parametrize(
    ("text", "of_tables"),
    [
        ("drop table a, b", True),
        ("DROP /* it */ INDEX IF EXISTS i", True),
        ("DROP SCHEMA table", False),
        ("DROP FUNCTION f(table)", False),
    ],
)
def test_drops_of_tables_and_indexes(text: str, *, of_tables: bool) -> None:
    assert drops_tables(text) is of_tables


def test_changes_of_schemas_that_are_explained() -> None:
    assert is_schema_change("ALTER TABLE t ADD c text")
    assert is_schema_change("create unique index concurrently on t (n)")
    assert is_schema_change("drop materialized view m")
    assert is_schema_change("CREATE OR REPLACE VIEW v AS SELECT 1")
    assert is_schema_change("CREATE TABLE t (a integer GENERATED ALWAYS AS (1) STORED)")
    assert not is_schema_change("CREATE TABLE t (a) AS SELECT 1")
    assert not is_schema_change("CREATE MATERIALIZED VIEW m AS SELECT 1")
    assert not is_schema_change("CREATE FUNCTION f() RETURNS integer RETURN 1")
    assert not is_schema_change('"alter" table t')
    assert not is_schema_change("DROP ROLE r")


@pytest.mark.parametrize("standard_strings", [True, False])
@pytest.mark.parametrize("behind", ["", " ", ";", "; \n", ";;", " -- c"])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1", " (SELECT 1)", "((", "SELECT 'a", "SELECT '(", "SELECT 'it''s'", 'SELECT "a', 'SELECT "b";\t', "SELECT $$;$$",
        "SELECT $$", "SELECT E'\\''", "SELECT 'a\\'", "/* ; */ SELECT 1", "SELECT ';'", "SELECT (1", "SELECT 1; SELECT 2",
        "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END", "", "  ",
    ],
)  # fmt: skip
def test_a_statement_alone_is_told_without_looking_at_all_of_it(text: str, behind: str, standard_strings: bool) -> None:
    """What comes of it is the same as when all of it is looked at, as it is behind another statement."""
    whole = text + behind
    found = split(whole, standard_strings=standard_strings)
    compared = split("x;" + whole, standard_strings=standard_strings)[1:]
    assert [(each.text, each.offset + 2, each.first_word) for each in found] == [
        (each.text, each.offset, each.first_word) for each in compared
    ]
