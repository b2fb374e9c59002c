"""Which statements name temporary tables alone: PostgreSQL executes these without being asked about them again
(gateway/backend/meanings.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from catalog.datatypes import FIRST_USER_OID
from gateway.backend.arrays import number_array
from gateway.backend.meanings import Told
from gateway.backend.own_statement import Statement
from gateway.statement.implicit_functions import asking_functions
from gateway.statement.read_only_query import TRACELESS
from planner.syntax.insert_shape import insert_shape
from planner.tree.references import functions, relations, views

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext
    from gateway.statement.routed import Routed
    from planner.syntax.source_statement import Statement as SourceStatement
    from planner.tree.builtins import Builtins

# Which of these tables are the session's own temporary ones; whether only the session itself can change what they do,
# as they have no types to which others may add CHECKs; whether their names mean them before any other table, and would
# mean nothing without them.
_TEMPORARY: Final = f"""
SELECT c.oid::pg_catalog.int8, c.relkind OPERATOR(pg_catalog.=) ANY ('{{r,p}}')
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a
        JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) a.atttypid
        WHERE a.attrelid OPERATOR(pg_catalog.=) c.oid AND a.attnum OPERATOR(pg_catalog.>) 0
            AND t.oid OPERATOR(pg_catalog.>=) {FIRST_USER_OID} AND t.typtype OPERATOR(pg_catalog.<>) 'e'),
    (pg_catalog.current_schemas(true))[1] OPERATOR(pg_catalog.=) n.nspname
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_class o WHERE o.relname OPERATOR(pg_catalog.=) c.relname
        AND o.relpersistence OPERATOR(pg_catalog.<>) 't')
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
WHERE c.oid OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.oid[])
    AND c.relnamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema()
"""


async def told_of_tables(
    session: SessionContext, named: frozenset[int], changes: frozenset[int], made: frozenset[int]
) -> Told:
    """What PostgreSQL tells of a statement that names these relations, none of which is the lake's, changes rows of
    some, and makes values of these domains.
    """
    meanings = session.meanings
    question = named, changes, made
    if (kept := meanings.told(question)) is not None:
        return kept
    if not (named or changes or made):
        return Told(runs_functions=False, is_temporary=False)
    asked_at = meanings.epoch
    asked = [asking_functions(changes, made), Statement(_TEMPORARY, (number_array(named),))]
    watched, found = await session.backend.run(*asked, sync=session.simple)
    own = frozenset(int(oid) for oid, *_ in found.rows if oid is not None)
    meanings.note_own(own)
    lasts = bool(named) and own == named and not made and all(lasting == b"t" for _, lasting, _ in found.rows)
    told = Told(watched.rows[0][0] == b"t", lasts and all(plain == b"t" for *_, plain in found.rows))
    if lasts:
        meanings.tell(question, told, asked_at)
    return told


def names_only(tree: Any, tables: frozenset[int]) -> bool:
    """Whether the tree, rules and all, names these tables alone, and no view."""
    return relations(tree) == tables and not views(tree)


def is_calm(tree: Any, builtins: Builtins) -> bool:
    """Whether an analysed query or change of rows calls no function that may change what names mean."""
    for oid in functions(tree):
        known = builtins.functions.get(oid)
        if known is None or (known.volatility == "v" and known.name not in TRACELESS):
            return False
    return True


def stands(session: SessionContext, routed: Routed) -> bool:
    """Whether the statement still names temporary tables alone, by what its analysis said."""
    at = routed.temporary_at
    return at is not None and at == session.meanings.epoch and _may_be_known(session)


def constants_shape(session: SessionContext, statement: SourceStatement) -> tuple[str, ...] | None:
    """What an INSERT of constants has in common with others that insert other constants."""
    if statement.first_word != "insert" or session.backend.parameters.get("standard_conforming_strings") != "on":
        return None
    return insert_shape(statement.text)


def is_known(session: SessionContext, shape: tuple[str, ...] | None) -> bool:
    """Whether a statement of that shape names temporary tables alone, as far as the session knows."""
    return shape is not None and session.meanings.knows(shape) and _may_be_known(session)


def _may_be_known(session: SessionContext) -> bool:
    """Whether a statement may go without an analysis: one puts deferred changes in order, and says that the transaction
    is doomed.
    """
    return not (session.transaction.deferred.pending or session.transaction.enlistment.any)
