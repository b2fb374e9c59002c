"""EXPLAIN of a schema change: the text, or the values, of a compound change. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from catalog.model import TableVersion
from catalog.schema.compatibility import SchemaStep, forbidding_step
from catalog.schema.states import RULE_OF, Element, State, step
from planner.plans.explain_formats import formatted
from planner.schema.simple_change import CompoundChange, SimpleChange

Node = dict[str, Any]


def plan_node(compound: CompoundChange, versions: Mapping[int, TableVersion]) -> Node:
    """Return the plan's values; `versions` are those of tables whose rows are read or written."""
    plan = {
        "Node Type": "Schema Change",
        "Committed": "step by step" if compound.is_stepwise else "at once",
        "Plans": [_node(each, versions) for each in compound.changes],
    }
    return plan | ({"Notices": list(compound.notices)} if compound.notices else {})


def _node(change: SimpleChange, versions: Mapping[int, TableVersion]) -> Node:
    named = {"Name": change.subject, "Schema": change.schema, "Relation Name": change.table}
    node: Node = {"Node Type": change.step.rule.kind.title(), **named}
    if change.states:
        node["States"] = [state.upper() for state in change.states]
    if change.kind.writes and change.relid in versions:
        node["Data Written Anew"] = _amounts([versions[change.relid]])
    if change.reads:
        node["Data Looked At"] = _amounts([versions[oid] for oid in change.reads])
    if change.is_stepwise and change.kind.element is not None:
        return node | {"Steps": list(_steps(change.kind.element, change.states))}
    return node | {"Forward Compatible": change.is_forward_compatible}


def _steps(element: Element, states: Sequence[State]) -> Iterator[Node]:
    """Yield each step of an element: its effect, and since which state a transaction may go on."""
    taken = [step(element, before, after).kind for before, after in pairwise(states)]
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


def _amounts(versions: Sequence[TableVersion]) -> Node:
    files = [file for version in versions for file in version.files]
    return {
        "Files": len(files),
        "Rows": sum(version.row_count for version in versions),
        "Bytes": sum(file.size_bytes for file in files),
    }


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
