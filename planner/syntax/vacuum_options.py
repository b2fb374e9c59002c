"""The options and tables of VACUUM and ANALYZE, after PostgreSQL's checks. Pure.

Source: vacuum.c, ExecVacuum; define.c, defGetBoolean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from planner.tree.nodes import Node

_FALSE: Final = frozenset({"false", "off", "0"})


@dataclass(frozen=True, slots=True)
class MaintainedTable:
    """A table that the statement names, and the columns that ANALYZE is to read: all if there are none."""

    relation: Node
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VacuumCommand:
    """The work, and the tables: all if there are none."""

    vacuums: bool
    analyzes: bool
    full: bool
    verbose: bool
    skips_locked: bool
    tables: tuple[MaintainedTable, ...]


def vacuum_command(statement: Node) -> VacuumCommand | None:
    """Read a VacuumStmt; None if it is about the database's own statistics alone."""
    options = {option.defname: _is_on(option.arg) for option in statement.options or ()}
    if options.get("only_database_stats"):
        return None
    vacuums = bool(statement.is_vacuumcmd)
    return VacuumCommand(
        vacuums=vacuums,
        analyzes=not vacuums or options.get("analyze", False),
        full=options.get("full", False),
        verbose=options.get("verbose", False),
        skips_locked=options.get("skip_locked", False),
        tables=tuple(
            MaintainedTable(each.relation, tuple(str(name) for name in each.va_cols or ()))
            for each in statement.rels or ()
        ),
    )


def _is_on(argument: Any) -> bool:
    return argument is None or str(argument).strip('"').lower() not in _FALSE
