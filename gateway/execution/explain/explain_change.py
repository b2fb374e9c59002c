"""EXPLAIN of a schema change: executes it in a savepoint, examines the result, and undoes it.

PostgreSQL's lock on the shadow is held for milliseconds and requested in short attempts, so other sessions do not
wait. Errors of the change itself occur here too: PostgreSQL's own, or a refusal. Errors that existing rows would cause
are not examined.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from catalog.errors import SluiceError, SqlState, unsupported
from gateway.backend import catalog_calls
from gateway.backend.arrays import number_array
from gateway.backend.connection import Result
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import TRIAL
from gateway.execution.schema.alter_table import told_later
from gateway.execution.schema.table_rewrite import Reorganisation
from gateway.session.cancel_listener import check
from gateway.session.session_context import shift
from gateway.session.visibility import latest
from gateway.statement.portal import StatementPortal
from gateway.statement.statement_parts import command_reader
from gateway.wire.messages.backend import CommandComplete, DataRow, NoticeResponse
from planner.plans.explain_formats import FORMATS
from planner.schema.agreement import differences
from planner.schema.explained_change import change_lines, change_values, plan_node
from planner.schema.parsed_change import parsed_change
from planner.schema.simple_change import CompoundChange
from planner.schema.trial_outcome import ShadowIndex, compound_change, trial_outcome
from planner.syntax.alter_text import using_expressions
from planner.syntax.concurrently_option import concurrent_command, plainly
from planner.syntax.statements import explained
from planner.syntax.table_options import TableLayout, told_layout, without_own_options

if TYPE_CHECKING:
    from gateway.backend.analysis import Analysis
    from gateway.session.session_context import SessionContext
    from gateway.statement.portal import Binding
    from gateway.statement.routed import Routed

_LOG: Final = logging.getLogger("sluice.explain")
_KNOWN_OPTIONS: Final = frozenset({"verbose", "costs", "format"})
_LOCK_TIMEOUT: Final = Statement("SET LOCAL lock_timeout = '50ms'")
_INDEXES: Final = """
SELECT i.indexrelid::pg_catalog.int8, i.indrelid::pg_catalog.int8, n.nspname, c.relname, x.relname,
       EXISTS (SELECT FROM pg_catalog.pg_constraint k
           WHERE k.conindid OPERATOR(pg_catalog.=) i.indexrelid
           AND k.contype OPERATOR(pg_catalog.=) ANY ('{p,u,x}'::pg_catalog."char"[]))
FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid OPERATOR(pg_catalog.=) i.indexrelid
JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) i.indrelid
    JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
WHERE i.indrelid OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.oid[]) ORDER BY n.nspname, c.relname, x.relname
"""
_RETRY_SECONDS: Final = 0.02


class ExplainChangePortal(StatementPortal):
    """Shows the elementary changes, their states, the data that they rewrite or check, and which transactions may
    straddle them.
    """

    def __init__(self, session: SessionContext, analysis: Analysis, routed: Routed, binding: Binding) -> None:
        super().__init__(session, analysis, routed, binding)
        assert routed.inner is not None
        assert routed.inner_routed is not None
        self._changing, self._query = routed.inner, routed.inner_routed.query
        self._format = routed.options.get("format", "text")
        self._touched: frozenset[int] = frozenset()
        unknown = set(routed.options) - _KNOWN_OPTIONS
        if unknown or self._format not in FORMATS:
            said = ", ".join(sorted(unknown)).upper() or f"FORMAT {self._format.upper()}"
            raise unsupported(f"EXPLAIN ({said}) of a change of schemas")

    async def run(self) -> None:
        session, transaction = self.session, self.session.transaction
        alone = not transaction.open and session.ends_with_statement
        await transaction.begin()
        await self.ask_limit()
        compound = await self._compound_change(alone=alone)
        plan = plan_node(compound, {oid: await latest(session, oid) for oid in sorted(self._touched)})
        if transaction.implicit and session.ends_with_statement:
            await transaction.roll_back()
        self.announce()
        for line in change_lines(plan) if self._format == "text" else [change_values(plan, self._format)]:
            session.client.send(DataRow((line.encode(),)))
        session.client.send(CommandComplete("EXPLAIN"))

    async def _compound_change(self, *, alone: bool) -> CompoundChange:
        """Execute the statement in a savepoint, and undo it; return what it changes."""
        session, lake = self.session, self.routed.lake
        using = self._expressions() if lake else {}
        before = {oid: (await latest(session, oid)).table for oid in lake}
        carried_out = await self._carried_out(using)
        found = _value(carried_out[-1])
        changed = [int(oid) for oid, shape in found["shapes"].items() if shape is not None]
        after = await self._indexes(changed)
        if any(each["relid"] in lake for each in found["columns"]):
            # Raises if the values cannot be computed; it undoes the savepoint.
            [obliged] = await session.backend.run(catalog_calls.column_obligations(lake[0]))
            await Reorganisation.plan(session, lake[0], using, before[lake[0]], obliged)
        else:
            await session.backend.run(*TRIAL.undo)
        [steps] = await session.backend.run(catalog_calls.explained_steps(found["shapes"]))
        notices = [_said(notice) for each in carried_out for notice in each.notices]
        outcome = trial_outcome(found, _value(steps), notices)
        self._touched = outcome.touched
        compound = compound_change(outcome, await self._indexes(changed), after, alone=alone)
        for difference in differences(parsed_change(self._changing.sql), compound):
            _LOG.warning("a schema change does not do what its text says: %s", difference)
        return compound

    def _expressions(self) -> dict[str, str]:
        if self._query is None:
            return {}
        return using_expressions(self._query.utilityStmt, partial(command_reader(self.session), self._changing.sql))

    async def _indexes(self, relids: Sequence[int]) -> list[ShadowIndex]:
        """The present indexes of these tables."""
        [result] = await self.session.backend.run(Statement(_INDEXES, (number_array(relids),)))
        rows = [[(value or b"").decode() for value in row] for row in result.rows]
        return [
            ShadowIndex(int(oid), int(relid), schema, table, name, owned == "t")
            for oid, relid, schema, table, name, owned in rows
        ]

    async def _carried_out(self, using: dict[str, str]) -> list[Result]:
        """Execute the change in a savepoint, which stays open; the last result lists its effects on the lake.

        Locks are requested in short attempts.
        """
        session = self.session
        changing = self._changing.sql
        if self._query is not None and concurrent_command(self._query.utilityStmt) is not None:
            changing = plainly(self._query.utilityStmt, changing)
        utility = None if self._query is None else self._query.utilityStmt
        layout = TableLayout() if utility is None else told_layout(utility)
        if layout:
            changing = without_own_options(changing)
        statements = [TRIAL.begin, _LOCK_TIMEOUT, Statement(changing)]
        if utility is not None and self.routed.lake:
            statements += told_later(self.routed.lake[0], utility, using)
        if utility is not None and utility.type != "CREATESTMT" and self.routed.lake:
            statements += catalog_calls.set_layout(self.routed.lake[0], layout, lasting=False)
        statements.append(catalog_calls.explained(self._changing.mark.own))
        while True:
            try:
                return await session.backend.run(*statements)
            except SluiceError as error:
                if error.sqlstate != SqlState.LOCK_NOT_AVAILABLE:
                    shift(error, explained(self.analysis.sql)[0])
                    raise
            await session.backend.run(*TRIAL.undo)
            await asyncio.sleep(_RETRY_SECONDS)
            check(session)


def _said(notice: NoticeResponse) -> str:
    fields = dict(notice.fields)
    return "\n".join(filter(None, (fields["M"], fields.get("D"))))


def _value(result: Result) -> Any:
    """The single value of the single row, as JSON."""
    value = result.rows[0][0]
    assert value is not None
    return json.loads(value)
