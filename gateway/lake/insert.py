"""INSERT of rows that do not come from the lake (VALUES, generate_series, temporary tables): PostgreSQL makes them.

It inserts into the shadow, in a savepoint: defaults, identity, generated columns, CHECK, NOT NULL, lengths and
RETURNING are its own. The rows are read back from the shadow, the savepoint is undone, and they are written as
Parquet without Spark.
"""

from __future__ import annotations

from gateway.analysis import UNDO
from gateway.lake.changing import Changing
from gateway.lake.guarded import guarding_functions, relay_statement
from gateway.lake.shadow_writer import ShadowWriter
from gateway.messages.backend import CommandComplete
from gateway.portal import StatementPortal
from gateway.visibility import functions_of_rules, hold, rules
from planner.computable import functions_of_users
from planner.nodes import Node


def target_oid(query: Node) -> int:
    """The OID of the table that the statement changes."""
    return int(query.rtable[int(query.resultRelation) - 1].relid)


class InsertRowsPortal(StatementPortal):
    """Rows that PostgreSQL makes and validates; those of RETURNING go straight from it to the client."""

    async def run(self) -> None:
        session = self.session
        assert self.routed.query is not None
        target = target_oid(self.routed.query)
        async with Changing(self, "INSERT", target) as changing:
            version = await hold(session, target, self.analysis.mark, changing.mark)
            if self.binding.raw_query is None:
                self.announce()
            functions = functions_of_users(self.routed.query) | functions_of_rules(await rules(session, version.table))
            async with guarding_functions(session, functions, target):
                tag = await relay_statement(session, self.binding)
            async with ShadowWriter(session, version.table) as writer:
                await writer.take(*UNDO)
                result = await writer.finish()
            await changing.wrote(result, version)
            await changing.finish()
        session.client.send(CommandComplete(tag))
