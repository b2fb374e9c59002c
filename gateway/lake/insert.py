"""INSERT of rows that do not come from the lake (VALUES, generate_series, temporary tables): PostgreSQL makes them.

It inserts into the shadow, in a savepoint: defaults, identity, generated columns, CHECK, NOT NULL, lengths and
RETURNING are its own. The rows are read back from the shadow, the savepoint is undone, and they are written as
Parquet without Spark.
"""

from __future__ import annotations

from catalog.datatypes import element_type
from gateway.analysis import UNDO
from gateway.kept_answers import KeptAnswers
from gateway.lake.changing import Changing
from gateway.lake.guarded import guarding_functions, relay_rows, send_statement
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
    """Rows that PostgreSQL makes and validates; those of RETURNING go straight from it to the client, but where arrays
    may have to be put another way first (gateway/lake/carried_arrays.py)."""

    async def run(self) -> None:
        session = self.session
        assert self.routed.query is not None
        target = target_oid(self.routed.query)
        async with Changing(self, "INSERT", target) as changing:
            version = await hold(session, target, self.analysis.mark, changing.mark)
            arrays = any(element_type(column.type_oid) is not None for column in version.table.columns)
            answers = KeptAnswers() if self.columns is not None and arrays else None
            if self.binding.raw_query is None and answers is None:
                self.announce()
            functions = functions_of_users(self.routed.query) | functions_of_rules(await rules(session, version.table))
            async with guarding_functions(session, functions, target):
                await send_statement(session, self.binding)
                tag = await relay_rows(session, answers)
            async with ShadowWriter(session, version.table) as writer:
                await writer.take(*UNDO)
                result = await writer.finish()
            if answers is not None:
                if self.binding.raw_query is None:
                    self.announce()
                await answers.give(session.client)
            await changing.wrote(result, version)
            await changing.finish()
        session.client.send(CommandComplete(tag))
