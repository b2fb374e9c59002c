"""Resolves relations that a statement names by a RangeVar of the tree."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from gateway.backend.own_statement import Statement
from planner.syntax import lexer
from planner.tree.nodes import Node, name_of

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

_RELATION: Final = "SELECT pg_catalog.to_regclass($1)::pg_catalog.oid::bigint::pg_catalog.text"


async def resolve(session: SessionContext, relation: Node) -> int | None:
    """The OID of the relation that a RangeVar names, by the session's search path; None where there is none."""
    [result] = await session.backend.run(Statement(_RELATION, (quoted_name(relation),)), sync=session.simple)
    value = result.rows[0][0]
    return None if value is None else int(value)


def quoted_name(relation: Node) -> str:
    """The quoted name of a RangeVar."""
    return quoted([relation.fields.get("schemaname"), relation.relname])


def quoted(parts: Iterable[Any]) -> str:
    """The parts of a name, quoted; empty parts are left out."""
    return ".".join(lexer.quoted(name_of(part)) for part in parts if part)
