"""Finds user-defined functions that a statement runs implicitly, without their being in its tree.

Triggers, constraints and indexes of changed tables outside of the lake run such functions, and so do domains in casts.
A function that reads a lake table would read its empty shadow. So these statements are guarded as those that call
user-defined functions (`gateway.execution.shadow.function_guard`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from catalog.datatypes import FIRST_USER_OID
from gateway.backend.arrays import number_array
from gateway.backend.own_statement import Statement

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

# Foreign keys' actions and partitions pass a change on to other tables. Each part uses an index of the catalog,
# whatever the number of tables; hence arrays and OFFSET 0, because PostgreSQL overestimates recursive sets. A foreign
# key is found by the triggers on the referenced table.
_RUNS_FUNCTIONS: Final = f"""
WITH RECURSIVE changed (oid) AS (
    SELECT pg_catalog.unnest($1::pg_catalog.oid[])
    UNION SELECT n.oid FROM changed c CROSS JOIN LATERAL (
        SELECT k.conrelid FROM pg_catalog.pg_trigger t
            JOIN pg_catalog.pg_constraint k ON k.oid OPERATOR(pg_catalog.=) t.tgconstraint
            WHERE t.tgrelid OPERATOR(pg_catalog.=) c.oid AND k.confrelid OPERATOR(pg_catalog.=) c.oid
        UNION ALL SELECT inhrelid FROM pg_catalog.pg_inherits WHERE inhparent OPERATOR(pg_catalog.=) c.oid
        OFFSET 0) AS n (oid)
), held (oid) AS (
    SELECT pg_catalog.unnest($2::pg_catalog.oid[])
    UNION SELECT a.atttypid FROM changed c CROSS JOIN LATERAL (
        SELECT atttypid FROM pg_catalog.pg_attribute WHERE attrelid OPERATOR(pg_catalog.=) c.oid
            AND attnum OPERATOR(pg_catalog.>) 0 OFFSET 0) a
    UNION SELECT t.typbasetype FROM held h CROSS JOIN LATERAL (
        SELECT typbasetype FROM pg_catalog.pg_type WHERE pg_type.oid OPERATOR(pg_catalog.=) h.oid
            AND typbasetype OPERATOR(pg_catalog.<>) 0 OFFSET 0) t
), evaluated (classid, objid) AS MATERIALIZED (
    SELECT 'pg_catalog.pg_constraint'::pg_catalog.regclass::pg_catalog.oid, k.oid FROM pg_catalog.pg_constraint k
        WHERE k.conrelid OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT oid FROM changed))
    UNION ALL SELECT 'pg_catalog.pg_constraint'::pg_catalog.regclass, k.oid FROM held h CROSS JOIN LATERAL (
        SELECT c.oid FROM pg_catalog.pg_constraint c WHERE c.contypid OPERATOR(pg_catalog.=) h.oid OFFSET 0) k
    UNION ALL SELECT 'pg_catalog.pg_attrdef'::pg_catalog.regclass, f.oid FROM pg_catalog.pg_attrdef f
        WHERE f.adrelid OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT oid FROM changed))
    UNION ALL SELECT 'pg_catalog.pg_class'::pg_catalog.regclass, i.indexrelid FROM pg_catalog.pg_index i
        WHERE i.indrelid OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT oid FROM changed))
)
SELECT EXISTS (SELECT FROM pg_catalog.pg_trigger
        WHERE tgrelid OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT oid FROM changed)) AND NOT tgisinternal)
    OR EXISTS (SELECT FROM evaluated e WHERE EXISTS (SELECT FROM pg_catalog.pg_depend d
        WHERE d.classid OPERATOR(pg_catalog.=) e.classid AND d.objid OPERATOR(pg_catalog.=) e.objid
            AND d.refclassid OPERATOR(pg_catalog.=) ANY
                ('{{pg_catalog.pg_proc,pg_catalog.pg_operator}}'::pg_catalog.regclass[])
            AND d.refobjid OPERATOR(pg_catalog.>=) {FIRST_USER_OID} OFFSET 0))
"""


def asking_functions(changed: Collection[int], domains: Collection[int]) -> Statement:
    """The question of `runs_functions`."""
    return Statement(_RUNS_FUNCTIONS, (number_array(changed), number_array(domains)))


async def runs_functions(session: SessionContext, changed: Collection[int], domains: Collection[int] = ()) -> bool:
    """Whether user-defined functions may run when rows of these relations change, or values of these domains
    are made.
    """
    if not changed and not domains:
        return False
    [result] = await session.backend.run(asking_functions(changed, domains), sync=session.simple)
    return result.rows[0][0] == b"t"
