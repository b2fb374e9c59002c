"""Control flow in PL/pgSQL bodies, and which statements are opened around COMMIT and ROLLBACK."""

from __future__ import annotations

import pytest

from planner.plpgsql.nodes import Block, Calling, Choice, Iteration, Kind, Loop, Plain, walk
from planner.plpgsql.opening import Opened, outward
from planner.plpgsql.parser import UnreadableError, changes_rows, is_variable, read_body
from planner.plpgsql.records import field_types, fields
from planner.plpgsql.step import Column, Names, Part, Scope, State, literal, part_of, scope_of, step_text


def _statements(text: str) -> list[object]:
    return list(read_body(f"BEGIN {text} END").block.body)


def _loop(text: str) -> Loop:
    [loop] = _statements(text)
    assert isinstance(loop, Loop)
    return loop


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("LOOP NULL; END LOOP;", Iteration.ENDLESS),
        ("WHILE a < (SELECT 1) LOOP NULL; END LOOP;", Iteration.WHILE),
        ("FOR i IN 1..3 LOOP NULL; END LOOP;", Iteration.INTEGER),
        ("FOR i IN a.b .. c.d LOOP NULL; END LOOP;", Iteration.INTEGER),
        ("FOR i IN REVERSE f(1, 2)..(SELECT 3) BY 2 LOOP NULL; END LOOP;", Iteration.INTEGER),
        ("FOR i IN null..3 LOOP NULL; END LOOP;", Iteration.INTEGER),
        ("FOR r IN SELECT a[1:2], '..' FROM t LOOP NULL; END LOOP;", Iteration.QUERY),
        ("FOR r IN (SELECT 1..3) LOOP NULL; END LOOP;", Iteration.QUERY),
        ("FOR a, b IN EXECUTE 'x' USING 1 LOOP NULL; END LOOP;", Iteration.DYNAMIC),
        ("FOR r IN c LOOP NULL; END LOOP;", Iteration.CURSOR),
        ("FOR r IN c(1, (2)) LOOP NULL; END LOOP;", Iteration.CURSOR),
        ("FOREACH x IN ARRAY ARRAY[1, 2] LOOP NULL; END LOOP;", Iteration.ARRAY),
        ("FOREACH x SLICE 1 IN ARRAY a LOOP NULL; END LOOP;", Iteration.ARRAY),
        ("<<l>> FOR r IN SELECT 1 LOOP NULL; END LOOP l;", Iteration.QUERY),
    ],
)
def test_loops_have_kinds(text: str, kind: Iteration) -> None:
    assert _loop(text).kind is kind


def test_bounds_of_integer_loops() -> None:
    text = "BEGIN FOR i IN REVERSE f(1, 2) .. x.y BY n + 1 LOOP NULL; END LOOP; END"
    loop = read_body(text).block.body[0]
    assert isinstance(loop, Loop)
    assert ([each.of(text).strip() for each in loop.bounds], loop.reverse) == (["f(1, 2)", "x.y", "n + 1"], True)


@pytest.mark.parametrize(
    ("query", "changes"),
    [
        ("UPDATE t SET a = 1 RETURNING *", True),
        ("WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x", True),
        ("SELECT * FROM t FOR UPDATE", False),
        ("WITH x AS (SELECT 1) SELECT * FROM t FOR NO KEY UPDATE", False),
        ('SELECT "update", delete.a FROM t AS delete', False),
    ],
)
def test_loops_over_changed_rows(query: str, changes: bool) -> None:
    text = f"BEGIN FOR r IN {query} LOOP COMMIT; END LOOP; END"
    body = read_body(text)
    loop = body.block.body[0]
    assert isinstance(loop, Loop)
    assert changes_rows(loop, text) is changes
    assert Opened(body, ()).any is not changes


def test_variables_named_like_statements_are_assigned() -> None:
    text = "commit := 1; rollback[2] = 3; exit.x := 4; call := 5; return := 6;"
    assert [type(each) for each in _statements(text)] == [Plain] * 5


@pytest.mark.parametrize(
    ("text", "opened"),
    [
        ("NULL; COMMIT; NULL;", [False, True, False]),
        ("IF a THEN COMMIT; END IF; IF a THEN NULL; END IF;", [True, False]),
        ("BEGIN COMMIT; EXCEPTION WHEN OTHERS THEN NULL; END;", [False]),
        ("BEGIN NULL; EXCEPTION WHEN OTHERS THEN ROLLBACK; END;", [True]),
        ("CALL p(1); CALL q(1);", [True, False]),
        ("DO 'BEGIN COMMIT; END'; DO 'BEGIN NULL; END';", [True, False]),
        ("EXECUTE 'COMMIT';", [False]),
        ("CASE WHEN a THEN NULL; ELSE COMMIT; END CASE;", [True]),
        ("x := CASE WHEN a THEN b END; RAISE NOTICE 'COMMIT;';", [False, False]),
    ],
)
def test_what_ends_transactions_is_opened(text: str, opened: list[bool]) -> None:
    body = read_body(f"BEGIN {text} END")
    found = Opened(body, {"p"})
    assert [each in found for each in body.block.body] == opened
    assert found.any is any(opened)


def test_what_leaves_statements() -> None:
    text = "LOOP EXIT; EXIT a; CONTINUE WHEN x; RETURN; END LOOP; BEGIN EXIT WHEN y; END; <<b>> BEGIN EXIT b; END;"
    source = f"BEGIN {text} END"
    left = [each.of(source) for each in outward(read_body(source).block.body)]
    assert left == ["EXIT a;", "RETURN;", "EXIT WHEN y;"]


def test_declarations() -> None:
    block = read_body(
        "DECLARE a int := 1; -- one\n b CONSTANT text\n DEFAULT 'x;y'; c record; d date NOT NULL = now();"
        ' DECLARE e CURSOR (n int) FOR SELECT 1; "F g" ALIAS FOR $1; h numeric(5, 2); BEGIN END'
    ).block
    assert [(each.name, each.kind, each.declared, each.given, each.is_fixed) for each in block.variables] == [
        ("a", Kind.VALUE, "a int", ":= 1", False),
        ("b", Kind.VALUE, "b CONSTANT text", "DEFAULT 'x;y'", True),
        ("c", Kind.RECORD, "c record", "", False),
        ("d", Kind.VALUE, "d date NOT NULL", "= now()", True),
        ("e", Kind.CURSOR, "e CURSOR (n int) FOR SELECT 1", "", False),
        ("F g", Kind.ALIAS, '"F g" ALIAS FOR $1', "", False),
        ("h", Kind.VALUE, "h numeric(5, 2)", "", False),
    ]


def test_arguments_of_calls() -> None:
    text = "BEGIN CALL s.p(1, f(2, 'a,b'), n => 'x', VARIADIC ARRAY[1, 2]); CALL q(); END"
    calls = [each for each in walk(read_body(text).block) if isinstance(each, Calling)]
    assert [(each.procedure.of(text), each.name) for each in calls] == [("s.p", "p"), ("q", "q")]
    assert [(each.of(text), each.name, each.is_bare, each.is_variadic) for each in calls[0].arguments] == [
        ("1", None, False, False),
        ("f(2, 'a,b')", None, False, False),
        ("'x'", "n", True, False),
        ("ARRAY[1, 2]", None, False, True),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "BEGIN",
        "BEGIN IF a THEN NULL; END",
        "BEGIN LOOP NULL; END LOOP",
        "BEGIN END; BEGIN END",
        "BEGIN <<l>> NULL; END",
        "BEGIN FOR i IN 1.. LOOP NULL; END LOOP; END",
        "BEGIN " * 100 + "END; " * 99 + "END",
        "BEGIN COMMIT AND; END",
    ],
)
def test_what_cannot_be_read_is_said(text: str) -> None:
    with pytest.raises(UnreadableError):
        read_body(text)


def test_parts_keep_their_lines() -> None:
    text = "\nDECLARE\n  v int := 1;\nBEGIN\n  LOOP\n    v := v\n      + 1;\n    EXIT WHEN v > 3;\n    COMMIT;\n  END LOOP;\nEND"
    body = read_body(text)
    opened, names = Opened(body, ()), Names("own")
    [loop] = body.block.body
    assert isinstance(loop, Loop)
    part = part_of(body, names, loop.branch.statements[:2], opened)
    scope = scope_of(body, body.block, "own_block")
    scope.fresh, scope.values = False, {"v": "7"}
    done = step_text(body, names, [Scope("inline_code_block", []), scope], State(True, 3), part)
    lines = done.split("\n")
    assert lines[5].endswith("<<own_step>> BEGIN ") is False
    assert lines[5] == "v := v"
    assert lines[7].strip().startswith("IF v > 3 THEN own_branch := -1; EXIT own_step; END IF;")
    assert '"own_block"."v" := E\'7\';' in lines[0]
    assert [each.of(text) for each in part.leaving] == ["EXIT WHEN v > 3;"]


def test_a_step_without_statements_declares() -> None:
    body = read_body("DECLARE v int := 1; BEGIN NULL; END")
    scope = scope_of(body, body.block, "b")
    assert "v int := 1;" in step_text(body, Names("own"), [Scope("f", []), scope], State(), Part("", 0))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(1,two,,)", ["1", "two", None, None]),
        ('("a,b","c""d","e\\\\f","")', ["a,b", 'c"d', "e\\f", ""]),
        ("()", [None]),
        ('("(1,2)",x)', ["(1,2)", "x"]),
    ],
)
def test_fields_of_records(text: str, found: list[str | None]) -> None:
    assert fields(text) == found


def test_types_of_fields() -> None:
    sent = bytes.fromhex("00000003 00000017 00000004 00000001 0000043a ffffffff 00000019 00000000")
    assert field_types(sent) == [23, 1082, 25]


def test_literals_have_one_meaning() -> None:
    assert literal(None) == "NULL"
    assert literal("a'b\\c") == " E'a''b\\\\c'"


@pytest.mark.parametrize(
    ("text", "is_one"), [("a", True), ("a.b", True), ('"A b"', True), ("a[1]", False), ("4", False), ("NULL", False)]
)
def test_outputs_go_to_variables(text: str, is_one: bool) -> None:
    assert is_variable(text) is is_one


def test_blocks_and_choices_are_read() -> None:
    text = "<<a>> DECLARE x int; BEGIN IF b THEN c := 1; ELSIF d THEN NULL; ELSE NULL; END IF; END a;"
    [block] = _statements(text)
    assert isinstance(block, Block)
    [choice] = block.body
    assert isinstance(choice, Choice)
    assert (block.label, len(choice.branches), len(block.variables)) == ("a", 3, 1)
    assert Column("a", "pg_catalog.int4", "1").text == "1"
