"""EXPLAIN of a schema change: its simple changes in order, their states and row work, and compatible transactions.

Pure. `catalog.schema.states` has the states of an element and what others may do in each;
`catalog.schema.compatibility` says which transactions that used a table before may still commit after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from catalog.model import TableVersion
from catalog.schema.compatibility import SchemaStep, forbidding_step
from catalog.schema.states import PATHS, RULE_OF, Direction, Element, State, Work, path, step
from planner.plans.explain_formats import formatted

Node = dict[str, Any]

# Steps whose elements come or go with one commit; all other steps change existing elements.
_ADDED: Final = frozenset(
    {
        "create table",
        "add column",
        "add computed column",
        "add required column",
        "add constraint",
        "check constraint",
        "add index",
    }
)
_REMOVED: Final = frozenset({"drop table", "drop column", "drop constraint", "drop index"})
INDEX: Final = "add index"
_WRITTEN: Final = frozenset({"add computed column", "rewrite column"})


@dataclass(frozen=True, slots=True)
class Change:
    """One step of one table, as the schema log would have it."""

    relid: int
    schema: str
    table: str
    step: SchemaStep


@dataclass(frozen=True, slots=True)
class ShadowIndex:
    """An index of a table; one that a constraint `owned` comes and goes with the constraint."""

    oid: int
    relid: int
    schema: str
    table: str
    name: str
    owned: bool

    def change(self, kind: str) -> Change:
        """Return the change that adds or removes it."""
        return Change(self.relid, self.schema, self.table, SchemaStep(0, kind, self.name))


@dataclass(frozen=True, slots=True)
class Passing:
    """An element that passes its states one commit after another, from `origin` on.

    Its name is that of the constraint, or of the column that gets a new NOT NULL.
    """

    kind: Element
    relid: int
    name: str
    origin: State


def change_plan(  # noqa: PLR0917
    changes: Sequence[Change],
    made: Sequence[Change],
    passing: Sequence[Passing],
    looked: Mapping[tuple[int, str], Sequence[int]],
    versions: Mapping[int, TableVersion],
    notices: Sequence[str],
    *,
    alone: bool,
) -> Node:
    """Return the whole plan. `made` are indexes that are no constraints: in no step of the schema log.

    `looked`: the tables whose rows a constraint (table, name) must check. `versions` are those tables and all that are
    rewritten. `notices` are PostgreSQL's. `alone`: the statement is outside of a block, so `passing` elements take
    their steps one by one.
    """
    nodes, left = [], list(passing)
    for change in changes:
        found = next((each for each in left if (each.relid, each.name) == (change.relid, change.step.subject)), None)
        gone = change.step.kind in _REMOVED  # another of the same name may have replaced it
        read = [] if gone else [versions[oid] for oid in looked.get((change.relid, change.step.subject), ())]
        if found is not None:
            left.remove(found)
        nodes.append(_simple(change, read, versions) if found is None or not alone else _element(found, change, read))
    for change in made:
        found = next((each for each in left if (each.relid, each.name) == (change.relid, change.step.subject)), None)
        read = [] if found is None else [versions[change.relid]]
        nodes.append(_element(found, change, read) if found is not None and alone else _at_once(change, read))
    plan = {
        "Node Type": "Schema Change",
        "Committed": "step by step" if alone and passing else "at once",
        "Plans": nodes,
    }
    return plan | ({"Notices": list(notices)} if notices else {})


def _simple(change: Change, read: Sequence[TableVersion], versions: Mapping[int, TableVersion]) -> Node:
    kind = change.step.kind
    node = _node(change.step.rule.kind, change)
    if kind in _ADDED | _REMOVED:
        direction = Direction.ADDING if kind in _ADDED else Direction.REMOVING
        node["States"] = [state.upper() for state in PATHS[Work.SCHEMA_ONLY, direction]]
    if kind in _WRITTEN and change.relid in versions:
        node["Data Written Anew"] = _amounts([versions[change.relid]])
    if read:
        node["Data Looked At"] = _amounts(read)
    node["Forward Compatible"] = forbidding_step([change.step]) is None
    return node


def _at_once(change: Change, read: Sequence[TableVersion]) -> Node:
    """Return a change in a block, which is committed as one, or over no rows."""
    states = PATHS[Work.SCHEMA_ONLY, Direction.ADDING]
    looked = {"Data Looked At": _amounts(read)} if read else {}
    return _node(INDEX, change) | {"States": [state.upper() for state in states]} | looked


def _element(element: Passing, change: Change, read: Sequence[TableVersion]) -> Node:
    node = _node(INDEX if element.kind is Element.INDEX else change.step.kind, change)
    states = _path(element)
    node["States"] = [state.upper() for state in states]
    node["Data Looked At"] = _amounts(read)
    node["Steps"] = list(_steps(element, states))
    return node


def _steps(element: Passing, states: Sequence[State]) -> Iterator[Node]:
    """Yield each step of an element: its effect, and since which state a transaction may go on."""
    taken = [step(element.kind, before, after).kind for before, after in pairwise(states)]
    for number, after in enumerate(states[1:]):
        first = next(start for start in range(number + 1) if _straddles(taken[start : number + 1]))
        yield {
            "State": after.upper(),
            "New Rows Keep It": RULE_OF[after].keep,
            "Rows Looked At": RULE_OF[after].works,
            "Relied On": RULE_OF[after].rely,
            "Commits Of Transactions Since": states[first].upper(),
        }


def _straddles(kinds: Sequence[str]) -> bool:
    return forbidding_step([SchemaStep(0, kind, "element") for kind in kinds]) is None


def _path(element: Passing) -> tuple[State, ...]:
    return path(element.kind, element.origin)


def _node(kind: str, change: Change) -> Node:
    named = {"Name": change.step.subject, "Schema": change.schema, "Relation Name": change.table}
    return {"Node Type": kind.title(), **named}


def _amounts(versions: Sequence[TableVersion]) -> Node:
    files = [file for version in versions for file in version.files]
    return {
        "Files": len(files),
        "Rows": sum(version.row_count for version in versions),
        "Bytes": sum(file.size_bytes for file in files),
    }


def dropped_and_made(before: Sequence[ShadowIndex], after: Sequence[ShadowIndex]) -> tuple[list[Change], list[Change]]:
    """Return the indexes that a change removes, and those that it adds.

    One of the same name was created anew; one of the same OID was renamed, or became a constraint.
    """
    old, new = ({each.oid for each in some} | {(each.relid, each.name) for each in some} for some in (before, after))
    return (
        [
            each.change("drop index")
            for each in before
            if not {each.oid, (each.relid, each.name)} & new and not each.owned
        ],
        [each.change(INDEX) for each in after if not {each.oid, (each.relid, each.name)} & old and not each.owned],
    )


def change_lines(plan: Node) -> list[str]:
    """Return the plan in FORMAT TEXT."""
    lines = [f"{plan['Node Type']} (committed {plan['Committed']})"]
    if not plan["Plans"]:
        lines.append("  ->  Nothing that the lake's tables or their transactions depend on")
    for node in plan["Plans"]:
        place = f"{node['Schema']}.{node['Relation Name']}"
        about = "" if node["Node Type"].endswith("Table") else f' "{node["Name"]}"'
        lines.append(f"  ->  {node['Node Type']}{about} on {place}")
        if "States" in node:
            lines.append(f"        States: {' → '.join(node['States'])}")
        touched = [name for name in ("Data Looked At", "Data Written Anew") if name in node]
        lines += [f"        {name}: {_amount_text(node[name])}" for name in touched]
        if not touched:
            lines.append("        No Data Touched")
        lines += [f"        {line}" for line in _step_lines(node)]
    return lines + [f"  Notice: {line}" for text in plan.get("Notices", ()) for line in text.splitlines()]


def _step_lines(node: Node) -> Iterator[str]:
    if "Forward Compatible" in node:
        yield f"Forward Compatible: {'yes' if node['Forward Compatible'] else 'no'}"
    for each in node.get("Steps", ()):
        words = [
            word
            for name, word in (
                ("New Rows Keep It", "new rows keep it"),
                ("Rows Looked At", "rows that are there are looked at"),
                ("Relied On", "it is relied on"),
            )
            if each[name]
        ]
        since = each["Commits Of Transactions Since"]
        yield f"{each['State']}: {', '.join(words) or 'rows that go leave it'}; transactions since {since} may commit"


def _amount_text(amounts: Mapping[str, int]) -> str:
    named = ((amounts[f"{what}s"], what) for what in ("File", "Row", "Byte"))
    return ", ".join(f"{count} {what.lower()}{'' if count == 1 else 's'}" for count, what in named)


def change_values(plan: Node, form: str) -> str:
    """Return the plan in another form than text: one value, in JSON as PostgreSQL's an array of one object."""
    return formatted({"Plan": plan}, form)
