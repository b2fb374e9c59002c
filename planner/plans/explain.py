"""Sluice's EXPLAIN: a plan as a tree of named values, written as text or as JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from catalog.indexes import Index
from catalog.model import Table
from planner.plans import estimates
from planner.plans.estimates import Scanned
from planner.plans.explain_formats import formatted
from planner.plans.routes import Route
from planner.spark.plan import Scan, SparkQuery

Plan = dict[str, Any]
_CHANGES: Final = (Route.INSERT, Route.UPDATE, Route.DELETE, Route.MERGE)
# Values with lines of their own in text, and those after the name of a node.
_BLOCKS: Final = ("Spark SQL", "Spark Plan")
_ESTIMATES: Final = ("Startup Cost", "Total Cost", "Plan Rows", "Plan Width")
_NAMING: Final = ("Node Type", "Operation", "Schema", "Relation Name", "Index Name", "Plans", *_ESTIMATES)


@dataclass(frozen=True, slots=True)
class Reads:
    """What a scan reads of its table: the number of files, and their `rows`.

    With an `index`: the rows that it has found, and how many row groups of the files have them. The rows of a temporary
    table `are_handed` to Spark.
    """

    table: Table
    scanned: int
    skipped: int
    index: Index | None = None
    rows: int = 0
    groups_read: int = 0
    groups_skipped: int = 0
    are_handed: bool = False


def spark_plan(route: Route, query: SparkQuery, reads: Mapping[str, Reads], physical: str) -> Plan:
    """Return Spark's part. The keys of `reads` are the scans' names; `physical` is Spark's plan."""
    scans = []
    for scan in query.scans:
        read = reads[scan.name]
        table = read.table
        found = _scan("Temporary Rows" if read.are_handed else "Index Scan" if read.index else "Lake Scan", table)
        if read.index is not None:
            found["Index Name"] = read.index.name
            found |= _key_filter(scan, read.index)
        found |= _file_filter(scan, table)
        found |= {"Rows Handed": read.rows} if read.are_handed else _counts(read)
        scans.append(found | ({} if scan.restricted else estimates.of_scan(Scanned(table, read.rows))))
    plan = _top("Spark", route)
    if scans:
        plan["Plans"] = scans
    return plan | {"Spark SQL": query.sql, "Spark Plan": physical.rstrip()}


def stored_plan(scan: Scan, reads: Reads, *, by_key: bool) -> Plan:
    """Return the gateway's part: columns of a table as its files store them. `by_key`: of rows that keys have found."""
    shown = _scan("Key Scan" if by_key else "Index Scan" if reads.index else "Lake Scan", reads.table)
    if reads.index is not None:
        shown["Index Name"] = reads.index.name
    shown |= _file_filter(scan, reads.table) | ({"Rows Found": reads.rows} if by_key else _counts(reads))
    return _top("Gateway", Route.SELECT) | {"Plans": [shown | estimates.of_scan(Scanned(reads.table, reads.rows))]}


def counted_plan(table: Table, rows: int) -> Plan:
    """Return the gateway's part where the catalog tells how many rows there are."""
    shown = _scan("Catalog Scan", table) | estimates.of_scan(Scanned(table, rows))
    return _top("Gateway", Route.SELECT) | {"Plans": [shown]}


def constants_plan(route: Route, table: Table, rows: int) -> Plan:
    """Return the gateway's part where it sets constants in rows, or deletes them; it looks at so many."""
    shown = _scan("Lake Rows", table) | {"Rows Found": rows} | estimates.of_scan(Scanned(table, rows))
    return _top("Gateway", route) | {"Plans": [shown]}


def discreet(query: SparkQuery) -> SparkQuery:
    """Return the query as shown: if policies hide rows, the effect of conditions would reveal them."""
    scans = (replace(scan, predicate=(), keys=(), implied=()) if scan.restricted else scan for scan in query.scans)
    return replace(query, scans=tuple(scans))


def _file_filter(scan: Scan, table: Table) -> Plan:
    if not scan.predicate:
        return {}
    names = {column.attnum: column.name for column in table.columns}
    text = " AND ".join(
        " ".join([names[item.attnum], item.operator, ", ".join(str(value) for value in item.values)]).strip()
        for item in scan.predicate
    )
    return {"File Filter": text}


def _key_filter(scan: Scan, index: Index) -> Plan:
    """Return the conditions on the index's expressions."""
    conditions = [item for item in scan.keys if item.index == index.oid]
    if not conditions:
        return {}
    text = " AND ".join(
        " ".join([f"key {item.place}", item.operator, ", ".join(map(str, item.values))]).strip() for item in conditions
    )
    return {"Key Filter": text}


def _counts(read: Reads) -> Plan:
    found: Plan = {"Files Scanned": read.scanned, "Files Skipped": read.skipped}
    if read.index is not None:
        found |= {"Rows Found": read.rows}
        found |= {"Row Groups Scanned": read.groups_read, "Row Groups Skipped": read.groups_skipped}
    return found


def postgres_plan(route: Route, tables: Sequence[tuple[Table, int | None, SparkQuery | None]]) -> Plan:
    """Return PostgreSQL's part over copied rows of `tables`: all rows, or those that Spark finds.

    The number of rows is not shown for all tables.
    """
    plan = _top("PostgreSQL", route)
    if tables:
        plan["Plans"] = [
            _scan("Lake Rows", table)
            | ({} if rows is None else {"Rows Copied" if found is None else "Rows": rows})
            | ({} if found is None else {"Rows Copied By": found.sql})
            | ({} if rows is None else estimates.of_scan(Scanned(table, rows)))
            for table, rows, found in tables
        ]
    return plan


def _top(who: str, route: Route) -> Plan:
    name = route.value.title()
    return {"Node Type": f"{who} {name}"} | ({"Operation": name} if route in _CHANGES else {})


def _scan(kind: str, table: Table) -> Plan:
    return {"Node Type": kind, "Schema": table.schema, "Relation Name": table.name}


def without_costs(plan: Plan) -> Plan:
    """Return the plan for COSTS OFF."""
    kept = {name: value for name, value in plan.items() if name not in _ESTIMATES}
    return kept | ({"Plans": [without_costs(each) for each in plan["Plans"]]} if "Plans" in plan else {})


def _estimated(plan: Plan) -> str:
    if "Total Cost" not in plan:
        return ""
    cost, rows = f"{plan['Startup Cost']:.2f}..{plan['Total Cost']:.2f}", plan["Plan Rows"]
    return f"  (cost={cost} rows={rows} width={plan['Plan Width']})"


def as_lines(plan: Plan, summary: Mapping[str, Any]) -> list[str]:
    """Return the plan in FORMAT TEXT. `summary` is the result of ANALYZE."""
    lines = [plan["Node Type"] + _estimated(plan)]
    if "Placed By" in plan:
        lines.append(f"  Placed By: {plan['Placed By']}")
    for node in plan.get("Plans", ()):
        using = f" using {node['Index Name']}" if "Index Name" in node else ""
        lines.append(f"  ->  {node['Node Type']}{using} on {node['Schema']}.{node['Relation Name']}{_estimated(node)}")
        shown = {name: value for name, value in node.items() if name not in _NAMING}
        if "Files Scanned" in shown:
            shown["Files"] = f"{shown.pop('Files Scanned')} scanned, {shown.pop('Files Skipped')} skipped"
        if "Row Groups Scanned" in shown:
            groups = f"{shown.pop('Row Groups Scanned')} scanned, {shown.pop('Row Groups Skipped')} skipped"
            shown["Row Groups"] = groups
        lines += [f"        {name}: {value}" for name, value in shown.items()]
    for block in _BLOCKS:
        if block in plan:
            lines.append(f"  {block}:")
            lines += [f"    {line}" for line in plan[block].splitlines()]
    for name, value in summary.items():
        if isinstance(value, Mapping):  # how long it took is not known: rows are made one after another
            lines.append(f"{name}: output={value['Output Volume']}kB  format={value['Format']}")
        else:
            lines.append(f"{name}: {value:.3f} ms" if isinstance(value, float) else f"{name}: {value}")
    return lines


def as_values(plan: Plan, summary: Mapping[str, Any], form: str) -> str:
    """Return the plan in another form than text: one value, in JSON as PostgreSQL's an array of one object."""
    found = dict(summary)
    rows = found.pop("Actual Rows", None)
    whole = plan if rows is None else {**plan, "Actual Rows": rows}
    return formatted({"Plan": whole, **found}, form)
