"""INSERT, UPDATE, DELETE and MERGE of temporary tables that read lake rows.

The temporary table is PostgreSQL's own. The client's statement runs at the session's backend, over copied rows
(`gateway.execution.reading.postgres_query`). Its effect on the temporary table lasts, and the copies are removed
(`gateway.execution.reading.volatile_effects`). Spark's rows, of large tables or with what copies of rows lack, are
inserted as they come (`gateway.execution.temporary.temporary_insert`).

User-defined functions of the temporary tables (triggers, defaults, CHECKs, indexes) could read any table, so tables
with such functions are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from catalog.datatypes import FIRST_USER_OID
from catalog.errors import unsupported
from gateway.backend.own_statement import Statement
from gateway.execution.reading.plan_context import read
from gateway.execution.reading.postgres_query import Computing, is_small
from gateway.execution.temporary.temporary_insert import inserted
from gateway.statement.portal import StatementPortal
from gateway.wire.messages.backend import CommandComplete
from planner.plans.computable import is_computable

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext
    from planner.tree.nodes import Node

# Whether the target is an ordinary temporary table of the session, and whether any such table may call user-defined
# functions: changes of one may cascade to others.
_TARGET: Final = f"""
WITH mine AS (SELECT oid FROM pg_catalog.pg_class
    WHERE relnamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema())
SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN mine ON mine.oid OPERATOR(pg_catalog.=) c.oid
               WHERE c.oid OPERATOR(pg_catalog.=) $1::bigint::pg_catalog.oid
                   AND c.relkind OPERATOR(pg_catalog.=) 'r' AND NOT c.relhassubclass),
    EXISTS (SELECT FROM pg_catalog.pg_trigger t JOIN mine ON t.tgrelid OPERATOR(pg_catalog.=) mine.oid
        WHERE NOT t.tgisinternal)
    OR EXISTS (
        SELECT FROM pg_catalog.pg_depend d
        WHERE d.refobjid OPERATOR(pg_catalog.>=) {FIRST_USER_OID}
            AND d.refclassid OPERATOR(pg_catalog.=) ANY (
                '{{pg_catalog.pg_proc,pg_catalog.pg_operator,pg_catalog.pg_opclass,pg_catalog.pg_type}}'
                ::pg_catalog.regclass[])
            AND (d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
                AND d.objid OPERATOR(pg_catalog.=) ANY (SELECT oid FROM mine)
                 OR d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_attrdef'::pg_catalog.regclass
                     AND d.objid OPERATOR(pg_catalog.=) ANY (
                     SELECT a.oid FROM pg_catalog.pg_attrdef a JOIN mine ON a.adrelid OPERATOR(pg_catalog.=) mine.oid)
                 OR d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_constraint'::pg_catalog.regclass
                     AND d.objid OPERATOR(pg_catalog.=) ANY (
                     SELECT c.oid FROM pg_catalog.pg_constraint c
                         JOIN mine ON c.conrelid OPERATOR(pg_catalog.=) mine.oid)))
"""
CHANGED: Final = "a temporary table changed by these rows"
_OF_USERS: Final = "a change of temporary tables among which triggers, functions or types made by users are"


class TemporaryChangePortal(StatementPortal):
    """A change of a temporary table that reads lake rows."""

    async def run(self) -> None:
        session, query = self.session, self.routed.query
        assert query is not None
        await check_target(session, query)
        reading = await read(session, self.analysis, self.binding, self.routed.lake)
        self.limit_time(reading.timeout)
        copies = is_computable(query, session.gateway.builtins, made_by_users=True)
        if not copies or not is_small(list(reading.versions.values())):
            result = await inserted(session, self.analysis, self.routed, self.binding)
            if result is not None:
                session.client.send(*result.notices, CommandComplete(result.tag))
                return
        computing = Computing(
            session, query, reading, unsupported(CHANGED), made_by_users=True, lasting=True, changes=True
        )
        async with computing:
            if self.binding.raw_query is None:
                self.announce()
            tag = await computing.send(self.binding)
        session.client.send(CommandComplete(tag))


async def check_target(session: SessionContext, query: Node) -> None:
    """Raise 0A000 for a target that cannot be changed."""
    target = int(query.rtable[int(query.resultRelation) - 1].relid)
    [answer] = await session.backend.run(Statement(_TARGET, (str(target),)))
    [[ordinary, calls]] = answer.rows
    if ordinary != b"t":
        raise unsupported("changing a table that is not in the lake by rows of one that is")
    if calls == b"t":
        raise unsupported(_OF_USERS)
