"""Chooses the portal of a COPY of lake tables by its direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.errors import unsupported
from gateway.execution.copy.copy_in import CopyInPortal
from gateway.execution.copy.copy_out import CopyOutPortal
from gateway.statement.portal import Binding, Portal
from planner.plans.locking_plan import first_strength
from planner.plans.routes import Route
from planner.tree.nodes import Node

if TYPE_CHECKING:
    from gateway.backend.analysis import Analysis
    from gateway.session.session_context import SessionContext
    from gateway.statement.routed import Routed


def copy_portal(session: SessionContext, analysis: Analysis, routed: Routed, binding: Binding) -> Portal:
    """The portal of COPY FROM STDIN or TO STDOUT; the server's files and programs are refused."""
    assert routed.query is not None
    statement: Node = routed.query.utilityStmt
    if statement.filename is not None:
        raise unsupported("COPY from or to a file of the server or a program")
    if statement.is_from:
        return CopyInPortal(session, analysis, routed, binding)
    inner = routed.inner_routed
    if inner is not None and (inner.route is not Route.SELECT or first_strength(inner.query) is not None):
        raise unsupported("COPY of rows that a statement changes or locks")
    return CopyOutPortal(session, analysis, routed, binding)
