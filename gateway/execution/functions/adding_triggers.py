"""INSERT of few rows whose triggers only add rows: PostgreSQL executes it once, over empty shadows.

A statement that fires triggers is executed over filled shadows (`gateway.execution.functions.trigger_statement`), which
asks first what the triggers' functions name. Where the last INSERT into a table has shown that its triggers look at no
rows of the lake, and have no effects but new rows, the next one is executed as if it fired none. What it has really
done is counted, as ever: if that is more, all of it is undone, and it is executed over filled shadows.

What was learnt holds for a role, its search path, and the present functions (`pg_sluice.code_mark`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from catalog.schema.triggers import AddingTriggers
from gateway.execution.changes.insert import target_oid
from gateway.execution.changes.insert_series import may_be_followed
from gateway.execution.filling import effects_beside
from gateway.execution.functions.over_empty_shadows import OverEmptyShadows
from gateway.execution.functions.trigger_lookup import changes_view
from gateway.execution.functions.trigger_statement import TriggeredPortal
from gateway.execution.reading.function_tables import CODE, name_arrays, tables_named, trigger_texts, words_of
from gateway.execution.shadow.function_guard import relay_rows, send_statement, without_rows
from gateway.execution.shadow.kept_effects import has_effects
from gateway.session.visibility import versions
from gateway.transaction.inserted import Inserted
from planner.plans.computable import functions_of_users

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.backend.connection import Result
    from gateway.backend.own_statement import Statement
    from gateway.execution.filling.filled_shadows import FilledShadows
    from gateway.session.response_spool import ResponseSpool

# Of more tables nothing is kept in mind.
_TABLES_MAX: Final = 8
# Longer statements are not of few rows.
_TEXT_MAX: Final = 100_000


class AddingPortal(TriggeredPortal):
    """INSERT that fires triggers."""

    async def carry_out(self) -> str:
        """Execute everything, up to the answer's tag."""
        known = await self._known() if self._is_plain() else None
        tag = None if known is None else await self._over_empty(known)
        return await super().carry_out() if tag is None else tag

    def _is_plain(self) -> bool:
        """Whether the statement itself looks at no rows, and nothing around it stands in the way."""
        session, query, sql = self.session, self.routed.query, self.analysis.sql
        assert query is not None
        return (
            query.onConflict is None
            and len(sql) <= _TEXT_MAX
            and not (changes_view(self.routed) or self._read(query) or functions_of_users(query))
            and not has_effects(session, query)
            and not (session.cursors.any_open or session.unsynced or self.analysis.mark.own)
            and not (session.transaction.deferred.pending or session.transaction.parts is not None)
            and not session.transaction.read_only.stands
        )

    @property
    def _place(self) -> tuple[str, int]:
        assert self.routed.query is not None
        return self.session.user, target_oid(self.routed.query)

    async def _known(self) -> AddingTriggers | None:
        """What is known of the table's triggers; None if they may do more than add rows."""
        kept = self.session.gateway.store.triggers.adding
        known = kept.get(self._place)
        if known is not None and known.code is None:
            known = kept[self._place] = await self._read_functions(known)
        return known

    async def _read_functions(self, known: AddingTriggers) -> AddingTriggers | None:
        """What is known, with the mark of the triggers' functions and all tables that these name; None if they may have
        effects that go uncounted.
        """
        session = self.session
        await session.transaction.begin()
        [code] = await session.backend.run(CODE)
        grown = {self._place[1], *known.grown}
        texts, _ = await trigger_texts(session, grown)
        words = await words_of(session, texts)
        if words.may_do_more or words.may_build or effects_beside.names_counted(words.found):
            return None
        asked = effects_beside.uncounted("", await name_arrays(session, words.found))
        [acts] = await session.backend.run(asked)
        found = await versions(session, sorted(grown | await tables_named(session, words)))
        tables = [version.table for version in found.values() if not version.table.materialized]
        if acts.rows[0][0] != b"f" or len(tables) > _TABLES_MAX or not grown <= found.keys():
            return None
        return AddingTriggers(frozenset(grown), tuple(tables), code.rows[0], "exception" in words.found)

    async def over_rows(self, shadows: FilledShadows, wanted: set[int], unread: Iterable[int] = ()) -> str:
        """Execute over filled shadows, and keep in mind if that was not needed."""
        tag = await super().over_rows(shadows, wanted, unread)
        kept, place = self.session.gateway.store.triggers.adding, self._place
        if not self._is_plain() or (place in kept and kept[place] is None):
            return tag
        grown, before = shadows.grown, kept.get(place)
        learns = grown is not None and not (self.looked_at or self._strict)
        kept[place] = AddingTriggers((grown or frozenset()) | (before.grown if before else set())) if learns else None
        return tag

    async def _over_empty(self, known: AddingTriggers) -> str | None:
        """Execute the statement, and take its rows; None if it has done more, and all of it is undone."""
        session, query, target = self.session, self.routed.query, self._place[1]
        assert query is not None
        execution = OverEmptyShadows(self, known, target, self.analysis.mark)
        tag = await execution.execute(self._performed, self._give)
        version = execution.found.get(target)
        if tag is None or version is None or execution.limits_idling or query.hasRowSecurity:
            return tag
        alike = without_rows(self) is not None and may_be_followed(session, version.table, query)
        if alike and not session.transaction.implicit:
            session.inserted = Inserted(version, execution.mark, execution.seconds, known)
        return tag

    async def _performed(self, kept: ResponseSpool, asked: Sequence[Statement]) -> tuple[str, bool, list[Result]]:
        backend, own = self.session.backend, without_rows(self)
        if own is not None:
            made, *answers = await backend.run(own, *asked)
            for notice in made.notices:
                await kept.keep(notice.encode())
            return made.tag, bool(made.notices), answers
        await send_statement(self.session, self.binding)
        tag = await relay_rows(self.session, kept)
        return tag, True, await backend.run(*asked)
