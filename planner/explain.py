"""The text of Sluice's own EXPLAIN. Pure; golden files hold it."""

from __future__ import annotations

from collections.abc import Mapping

from catalog.model import Table
from planner.plan import SparkQuery
from planner.routes import Route


def explain_lines(
    route: Route, query: SparkQuery, files: Mapping[str, tuple[Table, int, int]], physical: str
) -> list[str]:
    """The lines of a plan. `files` gives, by the scan's name, its table and how many files are scanned and skipped;
    `physical` is Spark's plan."""
    lines = [f"Spark {route.value.title()}"]
    for scan in query.scans:
        table, scanned, skipped = files[scan.name]
        lines.append(f"  ->  Lake Scan on {table.schema}.{table.name}")
        if scan.predicate:
            names = {column.attnum: column.name for column in table.columns}
            conditions = " AND ".join(
                " ".join([names[item.attnum], item.operator, ", ".join(str(value) for value in item.values)]).strip()
                for item in scan.predicate
            )
            lines.append(f"        File Filter: {conditions}")
        lines.append(f"        Files: {scanned} scanned, {skipped} skipped")
    lines.append("  Spark SQL:")
    lines += [f"    {line}" for line in query.sql.splitlines()]
    lines.append("  Spark Plan:")
    lines += [f"    {line}" for line in physical.rstrip().splitlines()]
    return lines
