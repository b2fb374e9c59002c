"""COPY of lake tables: which way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.errors import unsupported
from gateway.lake.copy_in import CopyInPortal
from gateway.lake.copy_out import CopyOutPortal
from gateway.portal import Binding, Portal
from planner.nodes import Node

if TYPE_CHECKING:
    from gateway.analysis import Analysis
    from gateway.exchange import Exchange
    from gateway.routing import Routed


def copy_portal(session: Exchange, analysis: Analysis, routed: Routed, binding: Binding) -> Portal:
    """COPY FROM STDIN or TO STDOUT; the server's files and programs are refused."""
    assert routed.query is not None
    statement: Node = routed.query.utilityStmt
    if statement.filename is not None:
        raise unsupported("COPY from or to a file of the server or a program")
    if statement.is_from:
        if statement.whereClause is not None:
            raise unsupported("COPY … WHERE")
        return CopyInPortal(session, analysis, routed, binding)
    return CopyOutPortal(session, analysis, routed, binding)
