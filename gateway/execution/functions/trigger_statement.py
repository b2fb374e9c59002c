"""Statements that fire triggers: PostgreSQL executes them over lake rows in filled shadows.

This works like statements that call functions (`gateway.execution.functions.over_filled_shadows`). No tree shows what
triggers do. So a statement is executed again until it uses no unfilled table. A table that only gets new rows needs
no others in its shadow. The lake checks their keys; after a conflict the existing rows are copied too, so that
PostgreSQL raises the error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

import numpy as np

from catalog.errors import SluiceError, unsupported
from gateway.execution.changes.insert import target_oid
from gateway.execution.filling.current_row_copy import CurrentRow
from gateway.execution.filling.filled_shadows import FilledShadows
from gateway.execution.functions.function_changes import is_undecided
from gateway.execution.functions.locks_before_triggers import assigned_by, fails_behind_lock
from gateway.execution.functions.over_filled_shadows import FilledPortal
from gateway.execution.functions.remembered_use import forgetting, note_used, used_before
from gateway.execution.functions.trigger_lookup import changes_view, needs_rows, targets
from gateway.execution.locks.row_locks import hold_met, strength_of
from gateway.execution.reading.function_tables import likely_tables, trigger_texts
from gateway.execution.reading.handed_rows import rows_by_keys
from gateway.execution.reading.plan_context import read
from gateway.execution.reading.postgres_query import SMALL_ROWS, is_small
from gateway.execution.shadow.function_guard import relay_rows, send_other_text
from gateway.session.offload import offloaded
from gateway.session.visibility import versions
from gateway.statement.statement_windows import take_place
from gateway.statement.window_rules import Place
from gateway.wire.messages.backend import CommandComplete
from planner.plans.change_plan import current_of
from planner.plans.placement import Kind, acts_in_results_alone, kind_of
from planner.plans.proposed_keys import proposed_keys
from planner.plans.routes import Route
from planner.plans.row_filter import wanted_keys
from planner.syntax.current_of_text import with_condition
from planner.tree.references import domains, tables_read

if TYPE_CHECKING:
    from catalog.model import TableVersion
    from gateway.execution.shadow.loaded_rows import Loaded
    from gateway.session.response_spool import ResponseSpool
    from planner.tree.nodes import Node

# The gateway's cursor is named in the text that these tell.
_TELLING: Final = frozenset({"current_query", "pg_stat_activity"})
_DO_UPDATE: Final = 2  # OnConflictAction of nodes.h
_HINT: Final = (
    f"A row trigger may fire where the table has no more than {SMALL_ROWS} rows. DISABLE TRIGGER lets Spark do it."
)
_VOLATILE_HINT: Final = (
    f"PostgreSQL carries it out where the table has no more than {SMALL_ROWS} rows, or a key selects them."
    " A function that only computes can be declared STABLE or IMMUTABLE."
)


class TriggeredPortal(FilledPortal):
    """INSERT, UPDATE, DELETE, MERGE, and WITH that changes rows; TRUNCATE and COPY in subclasses."""

    leaves_unread = True
    _current: CurrentRow | None = None  # of WHERE CURRENT OF

    async def run(self) -> None:
        tag = await self.carry_out()
        self.session.client.send(CommandComplete(tag))

    async def carry_out(self) -> str:
        """Execute everything, up to the answer's tag."""
        session, query = self.session, self.routed.query
        assert query is not None
        await session.transaction.begin()
        await take_place(session, Place.SETTLED)
        await self.ask_limit()
        await self.prepare()
        shadows = await self.shadows()
        if self.routed.route in (Route.UPDATE, Route.DELETE) and (cursor := current_of(query)) is not None:
            self._current = shadows.current = CurrentRow(cursor, target_oid(query))
            self._current.alone = not self.once_only
        changed, read = targets(self.routed), self._read(query)
        if self.routed.route is Route.TRUNCATE:
            shadows.exclusive |= changed
        texts, by_statement = await trigger_texts(session, changed)
        if not by_statement and not self.once_only:
            await self._find_keys(query, shadows)
        by_cursor = set() if self._current is None else {self._current.oid}
        await self._check_size(needs_rows(self.routed) - shadows.by_keys.keys() - by_cursor)
        likely, shadows.words = await likely_tables(session, [self.analysis.sql, *texts])
        if by_cursor and not _TELLING.isdisjoint(shadows.words):
            raise unsupported("current_query() in a trigger that WHERE CURRENT OF fires")
        needed = session.gateway.store.triggers.needed
        key = session.user, frozenset(changed)
        of_triggers = f"triggers of {sorted(changed)}"
        wanted = set(self.routed.lake) | likely | used_before(session, of_triggers)
        await self.hear(shadows, wanted)
        expected = frozenset(wanted)
        learnt = needed.setdefault(key, set())
        with forgetting(session, of_triggers):
            tag = await self.over_rows(shadows, wanted, set() if self.once_only else wanted - read - learnt)
        note_used(session, of_triggers, wanted - expected)
        learnt |= self.looked_at
        return tag

    async def perform(self, answers: ResponseSpool | None) -> str:
        if self._current is None:
            return await super().perform(answers)
        sql = with_condition(self.analysis.sql, self._current.condition)
        await send_other_text(self.session, self.binding, sql, self.analysis.parameter_types)
        return await relay_rows(self.session, answers)

    async def meets_change(self, error: SluiceError, shadows: FilledShadows) -> bool:
        """PostgreSQL locks a row before its triggers run. Only rows that a key selects are known here, or that the
        proposed keys of ON CONFLICT meet.
        """
        session, query, changed = self.session, self.routed.query, list(targets(self.routed))
        if query is None or len(changed) != 1 or changed[0] not in shadows.versions or is_undecided(error):
            return False
        version = shadows.versions[changed[0]]
        if self.routed.route is Route.INSERT:
            rows = await self._proposed(query, version)
        elif await fails_behind_lock(session, error, version.table.oid, updates=self.routed.route is Route.UPDATE):
            rows = shadows.found(version.table.oid)
        else:
            return False
        if rows is None or not rows.rows.num_rows:
            return False
        await shadows.undo()
        met = rows.by_path(np.ones(rows.rows.num_rows, np.bool_))
        return not await hold_met(session, met, version, strength_of(version.table, assigned_by(query)))

    async def _proposed(self, query: Node, version: TableVersion) -> Loaded | None:
        """The rows that ON CONFLICT DO UPDATE meets, if the proposed keys are constants."""
        session, table = self.session, version.table
        if query.onConflict is None or int(query.onConflict.action) != _DO_UPDATE:
            return None
        size, builtins = self.analysis.tree.size, session.gateway.builtins
        wanted = await offloaded(session, size, proposed_keys, query, table, builtins, self.binding.canonical)
        if wanted is None:
            return None
        return await asyncio.to_thread(rows_by_keys, session.gateway.data_path, version, wanted)

    async def shadows(self) -> FilledShadows:
        """The shadows to fill, before the statement first runs."""
        shadows, cursors = await self.unfilled()
        self.check_repeatable(settled=True)
        self.once_only = bool(cursors.rows)
        if not self.once_only:
            self.session.cursors.filled.clear()
        return shadows

    async def prepare(self) -> None:
        """Work that is done once, in the transaction, before anything else."""

    async def _find_keys(self, query: Node, shadows: FilledShadows) -> None:
        """Find tables of which UPDATE or DELETE selects its rows by keys, before any user's code runs. Later scans by
        such code are counted.
        """
        session = self.session
        if self.routed.route not in (Route.UPDATE, Route.DELETE) or changes_view(self.routed) or domains(query):
            return
        reading = await read(session, self.analysis, self.binding, self.routed.lake)
        kind = await offloaded(session, reading.size, kind_of, query, session.gateway.builtins, past=reading.past)
        target = target_oid(query)
        if kind is Kind.ACTING and await offloaded(
            session, reading.size, acts_in_results_alone, query, session.gateway.builtins
        ):
            kind = Kind.FEW
        if kind is not Kind.FEW or target in tables_read(query):
            return
        wanted = await offloaded(session, reading.size, wanted_keys, query, target, reading.context)
        if wanted is not None:
            shadows.by_keys[target] = wanted

    def _read(self, query: Node) -> set[int]:
        """The tables whose rows the statement itself reads."""
        if self.routed.route is Route.WITH_CHANGES:
            return set(self.routed.lake)
        return {*tables_read(query), *needs_rows(self.routed)}

    async def _check_size(self, oids: Collection[int]) -> None:
        """Raise 0A000, before anything is done, for a table with too many rows to copy."""
        for version in (await versions(self.session, list(oids))).values() if oids else ():
            if not is_small([version]):
                raise self._too_large()

    def _too_large(self) -> SluiceError:
        return unsupported("changing rows of so large a table that has triggers", hint=_HINT)


class VolatilePortal(TriggeredPortal):
    """A change of rows that calls volatile functions of users. Each is called once for each row, as their order and
    their effects want it.
    """

    def _too_large(self) -> SluiceError:
        return unsupported("a volatile function in a change of so large a table", hint=_VOLATILE_HINT)
