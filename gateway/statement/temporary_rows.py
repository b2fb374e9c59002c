"""Changes of temporary tables' rows in a block with deferred changes (gateway/transaction/transactional_ddl.py).

A window would undo these changes, so they run outside of it, if they mean the same there. The statement is analysed
again outside. PostgreSQL's catalog rows of the changed tables, and of those that reference them, must equal those in
the window. Excluded are statements that may read the catalog, and those that call nextval while a deferred change
alters a sequence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError
from gateway.backend.arrays import number_array
from gateway.backend.connection import BackendLostError
from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import TRIAL
from gateway.session.statement_analysis import analysed
from gateway.statement.range_variable import resolve
from planner.plans.computable import acting_functions
from planner.plans.routes import Route, command, is_utility
from planner.tree.nodes import Node, walk
from planner.tree.references import functions, relations
from planner.tree.sequence_usage import takes_numbers

if TYPE_CHECKING:
    from gateway.backend.analysis import Analysis
    from gateway.session.session_context import SessionContext
    from gateway.statement.routed import Routed
    from planner.tree.builtins import Builtins

_CHANGES: Final = frozenset({Route.INSERT, Route.UPDATE, Route.DELETE, Route.MERGE})
# Functions that are not immutable and use these types, or have such names, may read the catalog.
_TYPES: Final = frozenset({"name", "oid"})
_REG: Final = "reg"
_NAMED: Final = ("pg_", "has_", "to_reg", _REG)
_TRACELESS: Final = frozenset({"currval", "nextval", "pg_sleep", "setval"})
# Whether all of them are temporary tables, and the catalog rows that describe them and tables connected by foreign
# keys.
_DESCRIBED: Final = """
WITH RECURSIVE near (oid) AS (
    SELECT pg_catalog.unnest($1::pg_catalog.oid[])
    UNION SELECT CASE WHEN k.conrelid OPERATOR(pg_catalog.=) n.oid THEN k.confrelid ELSE k.conrelid END
    FROM near n JOIN pg_catalog.pg_constraint k ON k.contype OPERATOR(pg_catalog.=) 'f'
        AND n.oid OPERATOR(pg_catalog.=) ANY (ARRAY[k.conrelid, k.confrelid])
), held (oid) AS (
    SELECT a.atttypid FROM near n JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) n.oid
        WHERE a.attnum OPERATOR(pg_catalog.>) 0
    UNION SELECT b.oid FROM held h JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) h.oid
    CROSS JOIN LATERAL (VALUES (t.typbasetype), (t.typelem)) AS b (oid) WHERE b.oid OPERATOR(pg_catalog.<>) 0
), described (what, place) AS (
    SELECT 'c', c.ctid FROM pg_catalog.pg_class c
    WHERE c.oid OPERATOR(pg_catalog.=) ANY (SELECT oid FROM near UNION SELECT indexrelid
        FROM pg_catalog.pg_index JOIN near ON indrelid OPERATOR(pg_catalog.=) oid)
    UNION ALL SELECT 'a', a.ctid FROM pg_catalog.pg_attribute a JOIN near n ON a.attrelid OPERATOR(pg_catalog.=) n.oid
    UNION ALL SELECT 'd', d.ctid FROM pg_catalog.pg_attrdef d JOIN near n ON d.adrelid OPERATOR(pg_catalog.=) n.oid
    UNION ALL SELECT 'i', i.ctid FROM pg_catalog.pg_index i JOIN near n ON i.indrelid OPERATOR(pg_catalog.=) n.oid
    UNION ALL SELECT 'h', i.ctid FROM pg_catalog.pg_inherits i
        JOIN near n ON n.oid OPERATOR(pg_catalog.=) ANY (ARRAY[i.inhrelid, i.inhparent])
    UNION ALL SELECT 'r', r.ctid FROM pg_catalog.pg_rewrite r JOIN near n ON r.ev_class OPERATOR(pg_catalog.=) n.oid
    UNION ALL SELECT 't', t.ctid FROM pg_catalog.pg_trigger t JOIN near n ON t.tgrelid OPERATOR(pg_catalog.=) n.oid
    UNION ALL SELECT 'p', p.ctid FROM pg_catalog.pg_policy p JOIN near n ON p.polrelid OPERATOR(pg_catalog.=) n.oid
    UNION ALL SELECT 'k', k.ctid FROM pg_catalog.pg_constraint k
    WHERE k.conrelid OPERATOR(pg_catalog.=) ANY (SELECT oid FROM near)
        OR k.contypid OPERATOR(pg_catalog.=) ANY (SELECT oid FROM held)
    UNION ALL SELECT 'y', y.ctid FROM pg_catalog.pg_type y JOIN held h ON y.oid OPERATOR(pg_catalog.=) h.oid
    UNION ALL SELECT 'e', e.ctid FROM pg_catalog.pg_enum e JOIN held h ON e.enumtypid OPERATOR(pg_catalog.=) h.oid
)
SELECT NOT EXISTS (
        SELECT FROM pg_catalog.unnest($1::pg_catalog.oid[]) o LEFT
            JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) o
        WHERE (c.relnamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema()) IS NOT TRUE
            OR c.relkind OPERATOR(pg_catalog.<>) 'r'),
    (SELECT pg_catalog.string_agg(what OPERATOR(pg_catalog.||) place::pg_catalog.text, ' ' ORDER BY what, place)
        FROM described)
"""


def changes_rows(routed: Routed) -> bool:
    """Whether PostgreSQL alone executes it and it changes rows, COPY of a table included."""
    query = routed.query
    if routed.route is not Route.RELAY or query is None:
        return False
    if is_utility(query):
        utility = query.utilityStmt
        return utility.type == "TRUNCATESTMT" or (
            utility.type == "COPYSTMT" and utility.relation is not None and utility.fields.get("whereClause") is None
        )
    return query.hasModifyingCTE or command(query) in _CHANGES


async def step_out(session: SessionContext, analysis: Analysis, routed: Routed) -> bool:
    """In a window, for a statement that `changes_rows`: close the window, if it changes only temporary tables and
    means the same outside. If not, a window may be open or not afterwards.
    """
    query, deferred = routed.query, session.transaction.deferred
    assert query is not None
    if not _is_plain(query, session.gateway.builtins, changed_sequences=deferred.changes_sequences):
        return False
    targets = await _targets(session, query)
    within = await _described(session, targets)
    if within is None:
        return False
    await deferred.close()
    if await _described(session, targets) != within:
        return False
    if is_utility(query):
        return await _targets(session, query) == targets
    try:
        outside = await analysed(session, analysis.sql, name=OWN, parameter_types=analysis.parameter_types, sync=True)
    except BackendLostError:
        raise
    except SluiceError:  # the statement is valid in the window alone
        await session.backend.run(*TRIAL.undo)
        return False
    return outside.tree == analysis.tree


def _is_plain(query: Node, builtins: Builtins, *, changed_sequences: bool) -> bool:
    if is_utility(query):
        return not changed_sequences
    if acting_functions(query, builtins) or (changed_sequences and takes_numbers(query, builtins)):
        return False
    if any(_tells_of_catalog(oid, builtins) for oid in functions(query)):
        return False
    return not any(
        node.type == "COERCEVIAIO" and _is_of_catalog(int(node.resulttype), builtins) for node in walk(query)
    )


def _tells_of_catalog(function: int, builtins: Builtins) -> bool:
    """Whether the function may read the catalog; true for an unknown one."""
    known = builtins.functions.get(function)
    if known is None:
        return True
    if known.volatility == "i" or known.name in _TRACELESS:
        return False
    return known.name.startswith(_NAMED) or any(
        _is_of_catalog(oid, builtins) for oid in (known.result, *known.arguments)
    )


def _is_of_catalog(type_oid: int, builtins: Builtins) -> bool:
    name = builtins.type_name(type_oid)
    return name in _TYPES or name.startswith(_REG)


async def _targets(session: SessionContext, query: Node) -> list[int]:
    """The OIDs of the changed tables; empty if one is missing."""
    if not is_utility(query):
        return sorted(relations(query))
    utility = query.utilityStmt
    named = utility.relations if utility.type == "TRUNCATESTMT" else (utility.relation,)
    found = [await resolve(session, relation) for relation in named]
    oids = [oid for oid in found if oid is not None]
    return oids if len(oids) == len(found) else []


async def _described(session: SessionContext, tables: list[int]) -> bytes | None:
    """The catalog rows of these tables; None if one of them is not temporary."""
    if not tables:
        return None
    [answer] = await session.backend.run(Statement(_DESCRIBED, (number_array(tables),)))
    are_temporary, described = answer.rows[0]
    return described if are_temporary == b"t" else None
