"""Functions that PostgreSQL runs beside a statement, and that are not in its tree: those of the triggers, constraints
and indexes of what it changes, which is no lake table, and of the domains that it casts to.

One of them that reads a lake table would find its shadow, which is empty; so such statements are watched as those that
call functions made by users are (`gateway.lake.guarded`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from catalog.datatypes import FIRST_USER_OID
from gateway.arrays import number_array
from gateway.backend import Statement

if TYPE_CHECKING:
    from gateway.exchange import Exchange

# By foreign keys' actions and to partitions, a change goes on to other tables.
_RUNS_FUNCTIONS: Final = f"""
WITH RECURSIVE changed (oid) AS (
    SELECT pg_catalog.unnest($1::oid[])
    UNION SELECT n.oid FROM changed c CROSS JOIN LATERAL (
        SELECT conrelid FROM pg_catalog.pg_constraint WHERE confrelid = c.oid
        UNION ALL SELECT inhrelid FROM pg_catalog.pg_inherits WHERE inhparent = c.oid) n (oid)
), held (oid) AS (
    SELECT pg_catalog.unnest($2::oid[])
    UNION SELECT a.atttypid FROM changed c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid WHERE a.attnum > 0
    UNION SELECT t.typbasetype FROM held h JOIN pg_catalog.pg_type t ON t.oid = h.oid WHERE t.typbasetype <> 0
)
SELECT EXISTS (SELECT FROM pg_catalog.pg_trigger WHERE tgrelid IN (SELECT oid FROM changed) AND NOT tgisinternal)
    OR EXISTS (SELECT FROM pg_catalog.pg_depend d
        WHERE d.refclassid IN ('pg_catalog.pg_proc'::regclass, 'pg_catalog.pg_operator'::regclass)
            AND d.refobjid >= {FIRST_USER_OID} AND (d.classid, d.objid) IN (
                SELECT 'pg_catalog.pg_constraint'::regclass::oid, k.oid FROM pg_catalog.pg_constraint k
                WHERE k.conrelid IN (SELECT oid FROM changed) OR k.contypid IN (SELECT oid FROM held)
                UNION ALL SELECT 'pg_catalog.pg_attrdef'::regclass, f.oid FROM pg_catalog.pg_attrdef f
                WHERE f.adrelid IN (SELECT oid FROM changed)
                UNION ALL SELECT 'pg_catalog.pg_class'::regclass, i.indexrelid FROM pg_catalog.pg_index i
                WHERE i.indrelid IN (SELECT oid FROM changed)))
"""


async def runs_functions(session: Exchange, changed: Collection[int], domains: Collection[int] = ()) -> bool:
    """Whether functions made by users may run where rows of these relations are changed, or values become of these
    domains."""
    if not changed and not domains:
        return False
    question = Statement(_RUNS_FUNCTIONS, (number_array(changed), number_array(domains)))
    [result] = await session.backend.run(question, sync=session.simple)
    return result.rows[0][0] == b"t"
