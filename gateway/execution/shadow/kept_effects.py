"""Keeps what PostgreSQL's own functions in an INSERT leave: large objects, settings, notifications, locks.

The made rows of other INSERTs are undone with their savepoint, and such effects would be undone with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from catalog.errors import unsupported
from gateway.backend import catalog_calls
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import TRIAL
from gateway.execution.shadow.trigger_bypass import copying_role, role_again
from planner.plans.computable import undone_functions

if TYPE_CHECKING:
    from catalog.model import Table
    from gateway.session.session_context import SessionContext
    from planner.tree.nodes import Node


def has_effects(session: SessionContext, query: Node) -> bool:
    """Whether the statement calls such functions."""
    return bool(undone_functions(query, session.gateway.builtins))


def refuse_effects(place: str) -> NoReturn:
    """For a statement that is undone in any case."""
    raise unsupported(f"a function that leaves something behind, {place}")


_UNCHECKED: Final = "SELECT pg_catalog.set_config('sluice.unchecked', $1, true)"


async def expect_made_rows(session: SessionContext) -> None:
    """Before the statement: the gateway takes the rows, and checks references; PostgreSQL's guards let them be."""
    filled = catalog_calls.set_filled(filled=True, unchecked=True)
    await session.backend.run(filled, Statement(_UNCHECKED, ("on",)))


async def remove_made_rows(session: SessionContext, table: Table) -> None:
    """Take the rows out of the shadow, past all triggers, and keep all else that the savepoint holds."""
    [role] = await session.backend.run(copying_role([table]))
    emptying = catalog_calls.empty_shadow(table.oid, session.backend.process_id)
    expected = catalog_calls.set_filled(filled=False), Statement(_UNCHECKED, ("",))
    await session.backend.run(*emptying, role_again(role.rows[0][0]), *expected, TRIAL.release)
