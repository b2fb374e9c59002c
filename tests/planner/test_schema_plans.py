"""Plans of schema changes: what sqlglot reads in the text, beside what became of it in PostgreSQL's trial.

`tests/golden/plans` has the plan of each statement. The trials' outcomes are those that `tests/golden/operations` and
`tests/golden/explain-changes.txt` record of EXPLAIN.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from catalog.schema.compatibility import SchemaStep
from planner.schema.agreement import differences
from planner.schema.change_kinds import CHANGE_KINDS, KIND_OF
from planner.schema.parsed_change import parsed_change
from planner.schema.simple_change import CompoundChange, SimpleChange

_GOLDEN = Path(__file__).parents[1] / "golden"
_PLANS = sorted((_GOLDEN / "plans").glob("*.txt"))
_CHANGE = re.compile(r"change: (?P<statement>.+?) -> ")
_EXPLAIN = re.compile(r"EXPLAIN (?P<statement>.+)")
_NODE = re.compile(r' *->  (?P<kind>[A-Z][\w ]+?)(?: "(?P<subject>.+)")? on (?P<schema>[^.]+)\.(?P<table>.+)')
_SECONDS_MAX = 2.0


def _line(change: SimpleChange) -> str:
    table = f"{change.schema}.{change.table}" if change.schema else change.table
    subject = f' "{change.subject}"' if change.subject else ""
    parts = [" → ".join(state.upper() for state in change.states)] if change.states else []
    parts += ["rows are read"] if change.is_stepwise else []
    parts += ["rows are written anew"] if change.kind.writes else []
    if not change.is_stepwise:
        parts.append("forward compatible" if change.is_forward_compatible else "not forward compatible")
    parts += [f"or {', '.join(sorted(change.or_kinds))}"] if change.or_kinds else []
    return f"  {change.step.kind}{subject} of {table}: {'; '.join(parts)}"


def _plan(statement: str) -> list[str]:
    compound = parsed_change(statement)
    lines = [_line(change) for change in compound.changes] + [
        f"  left to the trial: {each}" for each in compound.unparsed
    ]
    return lines or ["  nothing of tables"]


@pytest.mark.parametrize("path", _PLANS, ids=[path.stem for path in _PLANS])
def test_a_statement_is_a_compound_of_simple_changes(path: Path) -> None:
    golden = path.read_text()
    statements = [line for line in golden.splitlines() if line and not line.startswith((" ", "--"))]
    head = [line for line in golden.splitlines() if line.startswith("--")]
    found = "\n\n".join("\n".join([statement, *_plan(statement)]) for statement in statements)
    assert "\n".join([*head, "", found]).strip() == golden.strip()


def _outcomes() -> Iterator[tuple[str, str, CompoundChange]]:
    """Yield each explained statement, where it is, and what became of it."""
    for path in (_GOLDEN / "explain-changes.txt", *sorted((_GOLDEN / "operations").glob("*.txt"))):
        for part in re.split(r"\n\n|\n(?=== )", path.read_text()):
            stated = _EXPLAIN.match(part) or _CHANGE.search(part)
            if stated is None or "Schema Change (" not in part:
                continue
            found = [_NODE.match(line) for line in part.splitlines()]
            changes = [
                SimpleChange(
                    each["schema"],
                    each["table"],
                    SchemaStep(0, each["kind"].lower(), each["subject"] or each["table"]),
                )
                for each in found
                if each
            ]
            yield stated["statement"], path.stem, CompoundChange(tuple(changes))


def test_the_text_and_the_trial_agree() -> None:
    outcomes = list(_outcomes())
    assert len(outcomes) > 200
    wrong = [
        f"{place}: {statement}: {difference}"
        for statement, place, outcome in outcomes
        for difference in differences(parsed_change(statement.replace('"{schema}"', "{schema}")), outcome)
    ]
    assert wrong == []


def test_most_statements_are_parsed() -> None:
    statements = {statement for statement, _, _ in _outcomes() if statement.startswith(("ALTER TABLE", "CREATE"))}
    left = [each for each in statements if parsed_change(each).unparsed]
    assert len(left) * 5 < len(statements), left


@pytest.mark.parametrize("fault", ["another kind", "another column", "another table", "one less", "one more"])
def test_a_difference_is_found(fault: str) -> None:
    parsed = parsed_change("ALTER TABLE t ADD COLUMN c text, ADD CONSTRAINT k CHECK (n > 1)")
    first, second = (replace(each, schema="s") for each in parsed.changes)
    assert differences(parsed, CompoundChange((first, second))) == []
    wrong = {
        "another kind": (replace(first, step=SchemaStep(0, "drop column", "c")), second),
        "another column": (replace(first, step=SchemaStep(0, "add column", "d")), second),
        "another table": (replace(first, table="u"), second),
        "one less": (first,),
        "one more": (first, second, replace(first, step=SchemaStep(0, "drop column", "x"))),
    }[fault]
    assert differences(parsed, CompoundChange(wrong))


def test_every_kind_has_its_states() -> None:
    for kind in CHANGE_KINDS:
        change = SimpleChange("s", "t", SchemaStep(0, kind.kind, "x"))
        assert (change.states != ()) == (kind.direction is not None)
        assert KIND_OF[kind.kind] is kind


@pytest.mark.parametrize(
    ("opening", "closing"), [("array[", "]"), ("(", ")"), ("numeric(", ")"), ("a[", "]"), ("f(", ")")]
)
def test_deep_expressions_take_no_time(opening: str, closing: str) -> None:
    began = time.process_time()
    for depth in (30, 200):
        compound = parsed_change(f"ALTER TABLE t ADD CONSTRAINT c CHECK ({opening * depth}1{closing * depth})")
        assert [each.subject for each in compound.changes] == ["c"]
    assert time.process_time() - began < _SECONDS_MAX


@pytest.mark.parametrize(
    "text", ["ALTER TABLE t ADD c text" + " " * 3000, "ALTER TABLE t ADD c text DEFAULT 'x", "ALTER"]
)
def test_what_is_not_parsed_is_left_to_the_trial(text: str) -> None:
    assert parsed_change(text).unparsed == (text,)
